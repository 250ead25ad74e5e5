package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Screen is the output of a command: results go to Out, everything else to Err.
type Screen struct {
	Out    *bufio.Writer // keeps the first error until End
	Err    io.Writer
	AsJSON bool // results are JSON

	in          *bufio.Reader // of [Screen.Ask]
	outTerminal bool
	width       int    // of Out in characters; 0: unlimited
	lost        error  // why the result could not be written
	ifLost      string // advice for that case
}

// NewScreen returns a screen that writes results to out and everything else to err.
func NewScreen(out, err *os.File, asJSON bool) *Screen {
	s := &Screen{
		Out: bufio.NewWriter(out), Err: err, AsJSON: asJSON,
		outTerminal: term.IsTerminal(int(out.Fd())),
	}
	if s.outTerminal {
		s.width, _, _ = term.GetSize(int(out.Fd())) // 0 if it fails
	}
	return s
}

// End flushes Out and returns the exit status of a command: a failure if the result could not
// be written. Writing into a closed pipe ends the process by SIGPIPE.
func (s *Screen) End(status int) int {
	if err := s.Out.Flush(); err != nil {
		s.lost = err
	}
	if s.lost == nil {
		return status
	}
	s.Complain("the result is lost: %v", s.lost)
	s.Advise(s.ifLost)
	if status == Interrupted {
		return status
	}
	return ProtocolError
}

// Complain writes an error. The text may contain a provider's.
func (s *Screen) Complain(format string, args ...any) {
	s.note("Error: " + printable(fmt.Sprintf(format, args...)))
}

// Advise writes what to do about an error, unless the text is empty.
func (s *Screen) Advise(text string) {
	if text != "" {
		s.note("Next:  " + safetext.Escape(text, ""))
	}
}

// note writes a line to Err.
func (s *Screen) note(line string) { fmt.Fprintln(s.Err, line) }

// progress writes a line about a call, which may contain a provider's text.
func (s *Screen) progress(line string) { s.note(printable(line)) }

// Interrupted says that the command was interrupted, and returns the exit status.
func (s *Screen) Interrupted() int {
	s.note("interrupted")
	return Interrupted
}

// Ask asks the person at the terminal. It asks nothing if results are JSON, or if the output or the input is no terminal. The end of the input (Ctrl-D) is
// no answer, and an error.
func (s *Screen) Ask(question string) (answer string, asked bool, err error) {
	if s.AsJSON || !s.outTerminal || !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", false, nil
	}
	fmt.Fprint(s.Out, question, " ")
	if err := s.Out.Flush(); err != nil {
		return "", true, err // End says so
	}
	if s.in == nil {
		s.in = bufio.NewReader(os.Stdin) // of all questions
	}
	line, err := s.in.ReadString('\n')
	return strings.TrimSpace(line), true, err
}

// Confirm asks a question as Ask does, and reports whether the answer is yes.
func (s *Screen) Confirm(question string) (yes, asked bool) {
	answer, asked, _ := s.Ask(question + " [y/N]") // without an answer, it is no
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", asked
}

// Fail writes an error and the advice about it, and returns the exit status.
func (s *Screen) Fail(err error, next string) int {
	s.Complain("%v", err)
	s.Advise(next)
	if s.AsJSON {
		s.JSON(failedOutcome{&wholeError{Message: err.Error()}})
	}
	return ProtocolError
}

// Show writes a value as JSON, or as text, which a function writes.
func (s *Screen) Show(value any, text func()) {
	if s.AsJSON {
		s.JSON(value)
	} else {
		text()
	}
}

// JSON writes a value, indented on a terminal.
func (s *Screen) JSON(value any) {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		s.lost = err
		return
	}
	if s.outTerminal {
		indented := jsontext.Value(text)
		if indented.Indent(jsontext.WithIndent("  ")) == nil {
			text = []byte(safetext.Escape(string(indented), "\n"))
		}
	}
	fmt.Fprintf(s.Out, "%s\n", text)
}

const (
	// maxCell is the maximum length of a cell in characters: a provider may send a text as
	// long as its whole index.
	maxCell = 500
	// maxPadding is the maximum width of a column but the last, so that one long cell does not widen all rows.
	maxPadding = 60
	// leastPadding is the width of a column with a wider cell.
	leastPadding = 20
)

// Table writes rows below a header, and cuts lines at the width of the terminal. A cell that is wider than its column is shortened there, and
// stands whole on a line of its own below the row, which begins with the name of the column. The cells from the column whole on are to be read whole: in a
// row that is wider than the terminal, or has a cell among them that is wider than its column, they are on lines of their own, which are not cut.
func (s *Screen) Table(indent string, whole int, header []string, rows [][]string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i := range row {
			row[i] = cut(printable(row[i]), maxCell)
			w := uniseg.StringWidth(row[i])
			if w > maxPadding {
				w = leastPadding
			}
			widths[i] = max(widths[i], w)
		}
	}
	line := func(cells []string) string {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range cells {
			if isLong(cells, i) {
				cell = cut(cell, widths[i])
			}
			line.WriteString(cell + strings.Repeat(" ", max(widths[i]-uniseg.StringWidth(cell), 0)+2))
		}
		return strings.TrimRight(line.String(), " ")
	}
	fmt.Fprintln(s.Out, cut(line(header), s.width))
	for _, row := range rows {
		own := make([]bool, len(row)) // cells on lines of their own
		for i := range row {
			own[i] = isLong(row, i)
		}
		text := line(row)
		if whole < len(row) && (slices.Contains(own[whole:], true) || cut(text, s.width) != text) {
			text = line(row[:whole])
			for i := whole; i < len(row); i++ {
				own[i] = true
			}
		}
		fmt.Fprintln(s.Out, cut(text, s.width))
		for i, cell := range row {
			if own[i] && cell != "" {
				fmt.Fprintf(s.Out, "%s%*s%s: %s\n", indent, widths[0]+2, "", strings.ToLower(header[i]), cell)
			}
		}
	}
}

// isLong reports whether a cell is wider than its column and would move another one of its row.
func isLong(row []string, i int) bool {
	return uniseg.StringWidth(row[i]) > maxPadding && slices.ContainsFunc(row[i+1:], func(cell string) bool { return cell != "" })
}

// printable returns a text of unknown origin as one line without control characters, which
// could change what a terminal shows.
func printable(text string) string {
	return safetext.Escape(strings.Join(strings.Fields(text), " "), "")
}

// seconds formats a duration for people.
func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// cut shortens a text to a number of columns of a terminal; 0: it does not.
func cut(text string, most int) string {
	if most == 0 || uniseg.StringWidth(text) <= most {
		return text
	}
	characters, left, end := uniseg.NewGraphemes(text), most-1, 0
	for characters.Next() && left >= characters.Width() {
		left -= characters.Width()
		_, end = characters.Positions()
	}
	return text[:end] + "…"
}

// maxHelp is the length of the lines of a help, in characters.
const maxHelp = 80

// Wrap breaks the lines of a help, of which those that begin with a space stay as they are.
func Wrap(help string) string {
	var lines []string
	prose := false // the last line may get further words
	for line := range strings.SplitSeq(help, "\n") {
		if line == "" || line[0] == ' ' {
			lines, prose = append(lines, line), false
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if last := len(lines) - 1; prose && len(lines[last])+1+len(word) <= maxHelp {
				lines[last] += " " + word
				continue
			}
			lines, prose = append(lines, word), true
		}
	}
	return strings.Join(lines, "\n")
}
