package machine_test

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/machine"
)

// A process that was killed is dead, also while its parent has not asked how it has ended.
func TestKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says which processes there are")
	}
	command := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	named := machine.Process(command.Process.Pid)
	if named == "" || machine.IsDead(named) {
		t.Errorf("%q lives", named)
	}
	_ = command.Process.Kill()
	for until := time.Now().Add(10 * time.Second); !machine.IsDead(named); runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatalf("%q is dead", named)
		}
	}
	_ = command.Wait()
	if !machine.IsDead(named) {
		t.Errorf("%q is gone", named)
	}
}
