package machine_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/machine"
)

// R241: a process of another user, which the system hides (hidepid), is not taken for dead: its lease goes on.
func TestR241HiddenProcess(t *testing.T) {
	if lives := os.Getenv("LIVES"); lives != "" {
		if machine.IsDead(lives) || !machine.IsDead(os.Getenv("DEAD")) {
			t.Errorf("%s is dead: %t; %s is dead: %t", lives, machine.IsDead(lives), os.Getenv("DEAD"), machine.IsDead(os.Getenv("DEAD")))
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	killed := exec.CommandContext(t.Context(), "sleep", "60")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	dead := machine.Process(killed.Process.Pid)
	_ = killed.Process.Kill()
	_ = killed.Wait()
	folder, err := os.MkdirTemp("", "hidden-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(folder, "test"), program, 0o755), os.Chmod(folder, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c",
		`mount -t proc -o hidepid=2 proc /proc || exit 77; exec setpriv --reuid 65534 --regid 65534 --clear-groups ./test -test.run TestR241`)
	other.Dir, other.Env = folder, append(os.Environ(), "LIVES="+machine.Process(os.Getpid()), "DEAD="+dead, "GOCOVERDIR="+folder)
	output, err := other.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); errors.Is(err, exec.ErrNotFound) || ok && exit.ExitCode() == 77 {
		t.Skipf("the processes of other users can't be hidden here: %s", output)
	}
	if err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
