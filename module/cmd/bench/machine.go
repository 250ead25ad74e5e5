package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processorTime is how much of it some processes have used so far, in seconds.
func processorTime(pids []int) (s float64, err error) {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(threads) == 0 {
			return 0, fmt.Errorf("reading the processor time of process %d: /proc has no schedstat of it", pid)
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil {
				continue // the thread has just ended
			}
			running, _, _ := strings.Cut(string(text), " ")
			ns, err := strconv.ParseFloat(running, 64)
			if err != nil {
				return 0, fmt.Errorf("reading %s: %w", thread, err)
			}
			s += ns / 1e9
		}
	}
	return s, nil
}

// residentMemory is that of a process, in bytes.
func residentMemory(pid int) (float64, error) {
	value, err := field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	return kb * 1024, err
}

// children are the processes that a process has started.
func children(pid int) (pids []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, child)
	}
	return pids, nil
}

// openFiles is how many files a process may have open. The runtime of Go has raised
// the soft limit to the hard one, here and in Caddy.
func openFiles() (int, error) {
	limit, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(limit)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			hard := strings.Fields(rest)[1]
			if hard == "unlimited" {
				return 1 << 30, nil
			}
			return strconv.Atoi(hard)
		}
	}
	return 0, errors.New("/proc/self/limits has no line about open files")
}

// field is the value of the first line "name: value" of a file in /proc.
func field(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, name)
}

// versions are those of Go and Caddy that a binary was built with.
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

// kernel is the version of the one that runs.
func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
