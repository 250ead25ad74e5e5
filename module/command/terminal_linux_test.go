package command_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// atTerminal runs a command at a terminal, answers its questions (dialogue: question, answer, …), and returns what the terminal shows.
func atTerminal(t *testing.T, cmd *exec.Cmd, dialogue ...string) string {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	defer keyboard.Close()
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that Ctrl-C is a signal
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	err = cmd.Start()
	terminal.Close()
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := keyboard.Read(buffer)
		shown.Write(buffer[:n])
		if len(dialogue) > 0 && strings.HasSuffix(shown.String(), dialogue[0]) {
			if _, err := io.WriteString(keyboard, dialogue[1]); err != nil {
				t.Error(err)
			}
			dialogue = dialogue[2:]
		}
		if err != nil { // the command has ended
			break
		}
	}
	_ = cmd.Wait() // what it shows says how it ended
	if len(dialogue) > 0 {
		t.Errorf("it has not asked %q: %s", dialogue[0], shown.String())
	}
	return shown.String()
}
