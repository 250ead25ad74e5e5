package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// notes say why targets are missed. Whoever changes that changes them.
//
//go:embed notes.md
var notes string

// report is what was found, in Markdown.
type report struct {
	body  strings.Builder
	goals [][]string
}

// section begins one, and tells how its figures are found.
func (r *report) section(title, method string) {
	fmt.Fprintf(&r.body, "\n## %s\n\n%s\n", title, wrap(method))
}

func (r *report) note(text string) { fmt.Fprintf(&r.body, "\n%s\n", wrap(text)) }

func (r *report) table(t table) { fmt.Fprintf(&r.body, "\n%s", t.String()) }

// goal notes a figure that is to be reached.
func (r *report) goal(what, target, measured string) {
	r.goals = append(r.goals, []string{what, target, measured})
}

// table is one whose first column is text and whose others are numbers.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.header)
	b.WriteString("| ---" + strings.Repeat(" | --:", len(t.header)-1) + " |\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// number writes a whole number with commas.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// wrap breaks a paragraph into lines of the usual length.
func wrap(text string) string {
	const width = 120
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// write writes the whole report.
func (b *bench) write(w io.Writer, args []string) error {
	golang, caddy, err := versions(b.caddy)
	if err != nil {
		return err
	}
	model, err := field("/proc/cpuinfo", "model name")
	if err != nil {
		model = "unknown"
	}
	environment := func(name, standard string) string {
		if value := os.Getenv(name); value != "" {
			return value
		}
		return standard
	}
	var text strings.Builder
	text.WriteString("# Benchmarks\n\n" + wrap(`What the bridge costs, beside Caddy's own reverse_proxy doing the same work, and how soon it notices that a run has ended. All limits and protections of the bridge are on, and so
is its log (level `+b.logLevel+`, to /dev/null).`) + "\n\n")
	command := strings.TrimSpace("go run ./module/cmd/bench " + strings.Join(args, " "))
	text.WriteString("This file is the output of one run of\n\n```sh\n" + command + "\n```\n\n")
	if b.short {
		text.WriteString("**A short run: it shows that everything works, and its figures mean nothing.**\n\n")
	}
	facts := table{header: []string{"Machine", ""}}
	facts.add("date", time.Now().UTC().Format("2 January 2006, 15:04 UTC"))
	facts.add("processor", fmt.Sprintf("%s, %d cores, shared by loader, Caddy and provider", model, runtime.NumCPU()))
	facts.add("system", runtime.GOOS+" "+kernel()+", loopback interface")
	facts.add("Caddy, Go", caddy+", "+golang)
	facts.add("nginx", nginxVersion())
	facts.add("GOGC, GOMEMLIMIT", environment("GOGC", "100 (default)")+", "+environment("GOMEMLIMIT", "not set (Caddy takes it from its container or system)"))
	text.WriteString(strings.ReplaceAll(facts.String(), "--:", "---"))
	text.WriteString("\n" + wrap(`Only ratios of one run are worth anything: an absolute figure is that of this machine, with whatever else it was doing, and another run of the same program may be a third off. Targets are
therefore measured in turn, in short slices, so that a disturbance meets all of them. An interval in brackets holds 95 % of 1,000 bootstrap resamples of the rounds. Loader and provider speak HTTP/1.1 with hand-written code that takes a few
microseconds for a request, so that what is measured is what is between them; each answer is checked for its output, and a wrong one ends the run. The program's source, in module/cmd/bench, is short
enough to be read. `+"`-short`"+` takes less than a minute in all, `+"`-only`"+` runs some of the sections, `+"`-help`"+` tells the rest.`) + "\n")
	if len(b.report.goals) > 0 {
		goals := table{header: []string{"What", "target", "measured"}, rows: b.report.goals}
		text.WriteString("\n## Summary\n\nThe targets are the project's own; the last part says what stands in the way of those that are missed.\n\n" + goals.String())
	}
	text.WriteString(b.report.body.String())
	if !b.short {
		text.WriteString(notes)
	}
	_, err = io.WriteString(w, text.String())
	return err
}

func nginxVersion() string {
	text, err := exec.Command("nginx", "-v").CombinedOutput()
	if err != nil {
		return "not installed"
	}
	return strings.TrimSpace(strings.TrimPrefix(string(text), "nginx version:"))
}
