// Package machine says what a database has to know of its machine: which processes live, and which file systems are on other machines.
package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process identifies a process of this machine by the start of the system, its namespace, its id and its start, so that no later one has the same. Empty:
// the system does not say them, or there is no such process.
func Process(pid int) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // those after the name, which may contain anything
	if len(fields) < 20 || fields[0][0] == 'Z' {                    // that one was killed, and its parent has not asked how it has ended
		return ""
	}
	return fmt.Sprintf("%s %s %s %d", strings.TrimSpace(string(boot)), namespace, fields[19], pid)
}

// IsDead reports whether a process, as another instance has named it, certainly does not exist any more. Only this instance's namespace can be
// looked at.
func IsDead(of string) bool {
	self := strings.Fields(Process(os.Getpid()))
	theirs := strings.Fields(of)
	if len(self) != 4 || len(theirs) != 4 || self[0] != theirs[0] || self[1] != theirs[1] {
		return false
	}
	pid, err := strconv.Atoi(theirs[3])
	if err != nil || Process(pid) == of {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrPermission) // /proc may hide those of other users (hidepid)
}
