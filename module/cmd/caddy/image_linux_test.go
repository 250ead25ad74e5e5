package main_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// enter starts a program in the file system of an image as an engine does: read-only but for /data, as a user without rights, who can get none. Its
// arguments are the root, the folders for /data, /etc/caddy and /run/secrets, and the program.
const enter = `set -e
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount --bind "$2" "$1/data"
mount --bind "$3" "$1/etc/caddy"
mount --bind "$4" "$1/run/secrets"
mount -o remount,bind,ro "$1/etc/caddy"
mount -o remount,bind,ro "$1/run/secrets"
mount -o remount,bind,ro "$1"
root=$1
shift 4
exec setpriv --no-new-privs chroot --userspec=65532:65532 "$root" "$@"`

// image is a file system that was made with the steps of the Dockerfile.
type image struct {
	t                         *testing.T
	root, data, etc, secrets  string
	env, entrypoint, defaults []string
	health                    []string
}

// instruction returns the last instruction of a kind in the Dockerfile.
func instruction(t *testing.T, dockerfile, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^`+name+` (.*)$`).FindAllStringSubmatch(dockerfile, -1)
	if len(found) == 0 {
		t.Fatalf("the Dockerfile has no %s", name)
	}
	return found[len(found)-1][1]
}

// buildImage executes the steps of the Dockerfile that make the files of the image.
func buildImage(t *testing.T) *image {
	t.Helper()
	dockerfile := readFile(t, "caddyfile-examples/deploy/Dockerfile")
	i := &image{t: t, root: t.TempDir(), data: t.TempDir(), etc: t.TempDir(), secrets: t.TempDir(), env: strings.Fields(instruction(t, dockerfile, "ENV"))}
	i.entrypoint = decode[[]string](t, instruction(t, dockerfile, "ENTRYPOINT"))
	i.defaults = decode[[]string](t, instruction(t, dockerfile, "CMD"))
	_, health, _ := strings.Cut(instruction(t, dockerfile, "HEALTHCHECK"), " CMD ")
	i.health = decode[[]string](t, health)
	if user := instruction(t, dockerfile, "USER"); user != "65532:65532" {
		t.Fatalf("the user of the image is %s", user)
	}
	for _, folder := range []string{i.root, i.data, i.etc, i.secrets, filepath.Dir(i.root)} {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(i.data, 65532, 65532); err != nil {
		t.Skipf("skipped: this user can't make an image: %v", err)
	}
	paths := strings.NewReplacer("/image/", i.root+"/", "/owned/", t.TempDir()+"/")
	_, tags, _ := strings.Cut(instruction(t, dockerfile, "ARG"), "=")
	for _, run := range regexp.MustCompile(`(?m)^RUN (.*)$`).FindAllStringSubmatch(dockerfile, -1) {
		step := exec.CommandContext(t.Context(), "sh", "-ec", paths.Replace(run[1]))
		step.Dir = repository
		step.Env = append(os.Environ(), "TAGS="+tags)
		if output, err := step.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", run[1], err, output)
		}
	}
	if err := os.Mkdir(filepath.Join(i.root, "data"), 0o755); err != nil { // COPY --chown does not change the owner of a folder that is there
		t.Fatal(err)
	}
	// What engines add.
	for _, err := range []error{
		os.Mkdir(filepath.Join(i.root, "proc"), 0o755),
		os.WriteFile(filepath.Join(i.root, "etc", "hosts"), []byte("127.0.0.1 localhost\n::1 localhost\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	probe := i.command("/usr/bin/caddy", "version")
	if output, err := probe.CombinedOutput(); err != nil {
		t.Skipf("skipped: no program can be run in a file system of its own: %v: %s", err, output)
	}
	return i
}

// command returns a command in the image, without a home and with no other environment than the image's.
func (i *image) command(words ...string) *exec.Cmd {
	i.t.Helper()
	command := exec.CommandContext(i.t.Context(), "unshare", append([]string{"--mount", "sh", "-c", enter, "sh", i.root, i.data, i.etc, i.secrets}, words...)...)
	command.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, i.env...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// write writes a file that the user of the image may read, and nobody may write.
func (i *image) write(folder, name, text string) {
	i.t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Chown(path, 65532, 65532); err != nil {
		i.t.Fatal(err)
	}
}

// TestImage: what the Dockerfile makes runs with a read-only root, without a home and without rights, with SQLite in /data as with PostgreSQL, passes its
// health check, and ends when it is told to.
func TestImage(t *testing.T) {
	longtest.Need(t, longtest.Long)
	i := buildImage(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1<<30))
	line, err := callers.Line("alice", "the-key-of-alice")
	if err != nil {
		t.Fatal(err)
	}
	i.write(i.secrets, "callers", line)
	for name, store := range map[string]string{"sqlite": "sqlite", "postgres": "postgres {file./run/secrets/dsn}"} {
		t.Run(name, func(t *testing.T) {
			i.t = t
			if name == "postgres" {
				i.write(i.secrets, "dsn", postgrestest.Start(t))
			}
			e := &example{t: t, text: readFile(t, "caddyfile-examples/deploy/kubernetes/Caddyfile")}
			port, metrics, admin := testbed.UnusedPort(t), testbed.UnusedPort(t), testbed.UnusedPort(t)
			e.replace("\tshutdown_delay 10s\n", "\tadmin localhost:"+admin+"\n")
			e.replace("http://:8080", "http://127.0.0.1:"+port)
			e.replace("http://:9180", "http://127.0.0.1:"+metrics)
			e.replace("store postgres {file./run/secrets/dsn}", "store "+store)
			e.replace("provider https://skills.example.com", "provider "+p.URL()+" {\n\t\t\tnamespace acme\n\t\t}")
			e.onLoopback()
			i.write(i.etc, "Caddyfile", e.text)

			var log bytes.Buffer
			caddy := i.command(append(i.entrypoint, i.defaults...)...)
			caddy.Stderr = &log
			if err := caddy.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- caddy.Wait() }()
			health := append(i.health, "--address", "localhost:"+admin)
			isReady := false
			for deadline := time.Now().Add(30 * time.Second); !isReady && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
				isReady = i.command(health...).Run() == nil
			}
			if !isReady {
				_ = caddy.Process.Kill()
				<-ended
				t.Fatalf("it is not ready:\n%s", &log)
			}
			b := bridgeAt(t, "127.0.0.1:"+port)
			if o := b.call("execute_skill", `{"name":"acme.slow","wait_ms":0,"idempotency_key":"`+name+`"}`, authorization, "Bearer the-key-of-alice"); !strings.Contains(string(o.Result), `"run_token"`) {
				t.Errorf("a run that outlives its request: %+v", o)
			}
			if a := b.send(http.MethodGet, "http://127.0.0.1:"+metrics+"/metrics", ""); !strings.Contains(a.body, "caddy_skill_bridge_database_usable") {
				t.Errorf("metrics: %d", a.status)
			}
			if err := caddy.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("it does not end")
				_ = caddy.Process.Kill()
				<-ended
			}
			for _, text := range []string{"read-only file system", "permission denied", `"level":"error"`, "HOME"} {
				if strings.Contains(log.String(), text) {
					t.Errorf("the log has %q:\n%s", text, &log)
				}
			}
			if err := i.command(health...).Run(); err == nil {
				t.Error("the health check passes without Caddy")
			}
		})
	}
	if _, err := os.Stat(filepath.Join(i.data, "caddy", "skill_bridge.db")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(i.root, "bin", "sh")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the image has a shell: %v", err)
	}
}
