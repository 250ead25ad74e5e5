package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

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
}

// NewScreen finds out which of two files are terminals.
func NewScreen(out, err *os.File) *Screen {
	s := &Screen{Out: out, Err: err, OutTerminal: isTerminal(out), ErrTerminal: isTerminal(err)}
	if !s.OutTerminal {
		return s
	}
	if width, _, err := term.GetSize(int(out.Fd())); err == nil {
		s.Width = width
	}
	return s
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
		s.Complain("%v", err)
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

// Table writes rows below a header, with the last column cut where the terminal
// ends.
func (s *Screen) Table(indent string, header []string, rows [][]string) {
	all := append([][]string{header}, rows...)
	widths := make([]int, len(header))
	for _, row := range all {
		for i := range row {
			row[i] = printable(row[i])
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	for _, row := range all {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		fmt.Fprintln(s.Out, s.cut(strings.TrimRight(line.String(), " ")))
	}
}

func (s *Screen) cut(line string) string {
	runes := []rune(line)
	if s.Width == 0 || len(runes) <= s.Width {
		return line
	}
	return string(runes[:s.Width-1]) + "…"
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
