package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// root returns the folder of the bridge's module, which is not that of this program.
func (s *Starter) root() string {
	const bridge = "github.com/skill-bridge/caddy-skill-bridge"
	return strings.TrimSpace(string(failure.Must(exec.CommandContext(s.Context, "go", "list", "-m", "-f", "{{.Dir}}", bridge).Output())))
}

// PeersFolder returns the folder of servers that are made with other libraries, as a module of its own and a package of npm.
func (s *Starter) PeersFolder() string { return filepath.Join(s.root(), "module", "testkit", "peers") }

// BuildPeers builds the program with the servers of Go.
func (s *Starter) BuildPeers(folder string) (file string, err error) {
	file = filepath.Join(s.Dir, "peers")
	return file, s.install("go", "build", "-C", folder, "-o", file, ".")
}

// InstallPeers installs the packages of the servers of Node in a folder. Offline, it downloads nothing.
func (s *Starter) InstallPeers(folder string, offline bool) (to string, err error) {
	to = failure.Must(os.MkdirTemp(s.Dir, "npm-"))
	for _, name := range []string{"package.json", "peers.mjs"} {
		failure.Check(os.WriteFile(filepath.Join(to, name), failure.Must(os.ReadFile(filepath.Join(folder, name))), 0o600)) //nolint:gosec // of this repository
	}
	args := []string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", to}
	if offline {
		args = append(args, "--offline")
	}
	return to, s.install("npm", args...)
}

// install runs a command that may download something.
func (s *Starter) install(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(s.Context, 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.WaitDelay = wire.Patience
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, text)
	}
	return nil
}
