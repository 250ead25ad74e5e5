package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
)

// PeersFolder returns the folder of servers that are made with other libraries, as a module of its own and a package of npm.
func (s *Starter) PeersFolder() string {
	const bridge = "github.com/skill-bridge/caddy-skill-bridge"
	root := failure.Must(exec.CommandContext(s.Context, "go", "list", "-m", "-f", "{{.Dir}}", bridge).Output())
	return filepath.Join(strings.TrimSpace(string(root)), "module", "internal", "peers")
}

// BuildPeers builds the program with the servers of Go.
func (s *Starter) BuildPeers(folder string) (file string, err error) {
	file = filepath.Join(s.Dir, "peers")
	if text, err := exec.CommandContext(s.Context, "go", "build", "-C", folder, "-o", file, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("the servers of Go can't be built: %w\n%s", err, text)
	}
	return file, nil
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
	if text, err := exec.CommandContext(s.Context, "npm", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("the packages of npm can't be installed: %w\n%s", err, text)
	}
	return to, nil
}
