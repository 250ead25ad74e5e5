package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
)

// Screen is where a command writes to: results to Out, all else to Err.
type Screen struct {
	Out, Err    io.Writer
	OutTerminal bool
	ErrTerminal bool
	Width       int // of Out in characters; 0: without a bound

	lost   error  // why results did not get to where Out leads
	ifLost string // what to do then
}

// NewScreen finds out which of two files are terminals.
func NewScreen(out, err *os.File) *Screen {
	s := &Screen{Err: err, OutTerminal: isTerminal(out), ErrTerminal: isTerminal(err)}
	s.Out = &results{out, s}
	if !s.OutTerminal {
		return s
	}
	if width, _, err := term.GetSize(int(out.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// results remembers the first error: a disk may be full. What comes after it would
// be no use.
type results struct {
	to     io.Writer
	screen *Screen
}

// Write implements io.Writer.
func (r *results) Write(text []byte) (int, error) {
	if r.screen.lost != nil {
		return 0, r.screen.lost
	}
	n, err := r.to.Write(text)
	r.screen.lost = err
	return n, err
}

// End is the exit status of a command: no success where the result is lost. (Who
// closes a pipe wants no more: then SIGPIPE has ended the process already.)
func (s *Screen) End(status int) int {
	if s.lost == nil {
		return status
	}
	s.Complain("the result is lost: %v", s.lost)
	if s.ifLost != "" {
		s.Advise(s.ifLost)
	}
	if status == Interrupted {
		return status
	}
	return ProtocolError
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Complain tells what went wrong. The text may be a provider's.
func (s *Screen) Complain(format string, args ...any) {
	fmt.Fprintln(s.Err, "Error: "+printable(fmt.Sprintf(format, args...)))
}

// Advise tells what to do about it.
func (s *Screen) Advise(text string) { fmt.Fprintln(s.Err, "Next:  "+escaped(text, "")) }

// JSON writes a value, for people on a terminal and as it is elsewhere.
func (s *Screen) JSON(value any) {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		s.lost = err
		return
	}
	if s.OutTerminal {
		indented := jsontext.Value(text)
		if indented.Indent(jsontext.WithIndent("  ")) == nil {
			text = []byte(escaped(string(indented), "\n"))
		}
	}
	fmt.Fprintf(s.Out, "%s\n", text)
}

const (
	// maxCell is how many characters of a cell a table shows: what a provider writes
	// may be as long as its whole index.
	maxCell = 500
	// maxPadding is how wide a column is made for the sake of what is below it: one
	// long cell must not widen all rows.
	maxPadding = 60
)

// Table writes rows below a header, with the last column cut where the terminal
// ends. A cell that is wider than its column moves the rest of its row.
func (s *Screen) Table(indent string, header []string, rows [][]string) {
	all := append([][]string{header}, rows...)
	widths := make([]int, len(header))
	for _, row := range all {
		for i := range row {
			row[i] = cut(printable(row[i]), maxCell)
			if width := utf8.RuneCountInString(row[i]); width <= maxPadding {
				widths[i] = max(widths[i], width)
			}
		}
	}
	for _, row := range all {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))+2))
		}
		fmt.Fprintln(s.Out, cut(strings.TrimRight(line.String(), " "), s.Width))
	}
}

// cut shortens a text to so many characters; 0: not at all.
func cut(text string, width int) string {
	if width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// printable makes one line of a text that anybody may have written: control
// characters would let it do to a terminal what it likes.
func printable(text string) string { return escaped(strings.Join(strings.Fields(text), " "), "") }

// escaped writes what can't be seen as JSON does, so that JSON stays the same.
func escaped(text, except string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || strings.ContainsRune(except, r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// seconds says how long something took.
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
