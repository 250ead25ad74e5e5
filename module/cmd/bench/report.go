package main

import (
	"debug/buildinfo"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// reportText is the template of the report.
//
//go:embed report.tmpl
var reportText string

// values are the values of a section in the template.
type values map[string]any

// report has the results of a run.
type report struct {
	Command, Machine string
	Short            bool
	Goals            [][]string
	Sections         map[string]values // by name; sections that did not run are missing
}

// goal adds a target and its measured value to the summary.
func (r *report) goal(what, target, measured string) {
	r.Goals = append(r.Goals, []string{what, target, measured})
}

// table is a table with texts in the first column and numbers in the others.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.header)
	b.WriteString("|---" + strings.Repeat("|--:", len(t.header)-1) + "|\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// number formats a whole number with commas.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// write writes the whole report.
func (b *bench) write(w io.Writer, args []string) error {
	golang, caddy, err := versions(b.Caddy)
	if err != nil {
		return err
	}
	environment := func(name, standard string) string {
		if value := os.Getenv(name); value != "" {
			return value
		}
		return standard
	}
	model, kernel, nginx := "unknown", "unknown", "not installed"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(text), "model name")
		model, _, _ = strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(text))
	}
	if text, err := exec.Command("nginx", "-v").CombinedOutput(); err == nil {
		nginx = strings.TrimSpace(strings.TrimPrefix(string(text), "nginx version: nginx/"))
	}
	b.report.Machine = fmt.Sprintf("Measured on %s, with %s, %d cores, shared by loader, Caddy and provider; %s %s, loopback interface;\n"+
		"Caddy %s, %s, nginx %s; GOGC %s, GOMEMLIMIT %s", time.Now().UTC().Format("2 January 2006, 15:04 UTC"), model, runtime.NumCPU(), runtime.GOOS, kernel,
		caddy, golang, nginx, environment("GOGC", "100 (default)"), environment("GOMEMLIMIT", "not set (Caddy takes it from its container or system)"))
	b.report.Command = strings.TrimSpace("go run -C module/cmd/bench . " + strings.Join(args, " "))
	b.report.Short = b.short
	text, err := template.New("report").Parse(reportText)
	if err != nil {
		return err
	}
	var whole strings.Builder
	if err := text.Execute(&whole, b.report); err != nil {
		return err
	}
	for _, none := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(whole.String(), none) {
			return fmt.Errorf("the report has figures that are none (%s):\n%s", none, whole.String())
		}
	}
	_, err = io.WriteString(w, whole.String())
	return err
}

// versions returns the versions of Go and Caddy in a binary.
func versions(file string) (golang, caddy string, err error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "", "", fmt.Errorf("reading what %s was built with: %w", file, err)
	}
	caddy = "unknown"
	for _, m := range info.Deps {
		if m.Path == "github.com/caddyserver/caddy/v2" {
			caddy = m.Version
		}
	}
	return info.GoVersion, caddy, nil
}
