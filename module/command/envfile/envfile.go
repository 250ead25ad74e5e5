// Package envfile reads files with environment variables, in the form that Caddy's option --envfile has. Caddy does not export its reader.
package envfile

import (
	"fmt"
	"os"
	"strings"
)

// Variable is a variable of a file.
type Variable struct{ Name, Value string }

// Read returns the variables of a file, in their order.
func Read(name string) ([]Variable, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	list, line, fault := parse(string(text))
	if fault != "" {
		return nil, fmt.Errorf("%s:%d: %s", name, line, fault)
	}
	return list, nil
}

// Load sets the variables of files. A variable that is set keeps its value, and of several files, the first that has it counts.
func Load(files ...string) error {
	for _, name := range files {
		list, err := Read(name)
		if err != nil {
			return err
		}
		set := map[string]string{} // of several lines in a file, the last counts
		for _, v := range list {
			set[v.Name] = v.Value
		}
		for name, value := range set {
			if _, exists := os.LookupEnv(name); exists {
				continue
			}
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// parse reads lines NAME=VALUE. It returns the line with a fault, and what is wrong with it, never a value, which may be a secret.
func parse(text string) (list []Variable, line int, fault string) {
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	for at := 0; at < len(lines); at++ {
		entry := strings.TrimSpace(lines[at])
		if entry == "" || strings.HasPrefix(entry, "#") {
			continue
		}
		name, value, found := strings.Cut(entry, "=")
		name = strings.TrimPrefix(name, "export ")
		switch {
		case !found:
			return nil, at + 1, "the line has to be NAME=VALUE"
		case name == "" || strings.ContainsAny(name, " \t\x00"):
			return nil, at + 1, "the name of a variable is empty or has spaces"
		case strings.HasPrefix(value, " ") || strings.HasPrefix(value, "\t"):
			return nil, at + 1, "there is a space before the value"
		}
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			begin := at + 1
			rest := append([]string{value[1:]}, lines[at+1:]...)
			quoted, count, closed := unquote(rest, value[:1])
			if !closed {
				return nil, begin, "the quotation mark at the beginning of the value has no counterpart"
			}
			value, at = quoted, at+count-1
		} else {
			value, _, _ = strings.Cut(value, "#")
			value = strings.TrimRight(value, " \t")
		}
		list = append(list, Variable{name, value})
	}
	return list, 0, ""
}

// unquote returns the text before the closing quotation mark, which a backslash before it escapes, and how many lines it takes.
func unquote(lines []string, quote string) (text string, count int, closed bool) {
	var b strings.Builder
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if i > 0 {
			b.WriteByte('\n')
		}
		for {
			before, after, found := strings.Cut(line, quote)
			b.WriteString(strings.TrimSuffix(before, `\`))
			if !found {
				if strings.HasSuffix(before, `\`) {
					b.WriteByte('\\')
				}
				break
			}
			if !strings.HasSuffix(before, `\`) {
				return b.String(), i + 1, true
			}
			b.WriteString(quote)
			line = after
		}
	}
	return "", 0, false
}
