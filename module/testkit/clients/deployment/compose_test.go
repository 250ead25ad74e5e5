package deployment_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// load loads a file of Docker Compose, which is checked against its schema.
func load(t *testing.T, file string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(folder, "..", file)}, cli.WithName("skill-bridge"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestCompose: the bridges can write only to /data and have time to end, everything is published on this machine only, and what is mounted is there.
func TestCompose(t *testing.T) {
	caddyfiles := map[string]string{"compose.yaml": "demo.Caddyfile", "compose.cluster.yaml": "kubernetes/Caddyfile"}
	for file, caddyfile := range caddyfiles {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(folder, "..", caddyfile))
			if err != nil {
				t.Fatal(err)
			}
			waits := seconds(t, string(text), "grace_period")
			if strings.Contains(string(text), "shutdown_delay") {
				waits += seconds(t, string(text), "shutdown_delay")
			}
			bridges := 0
			project := load(t, file)
			for name, s := range project.Services {
				for _, p := range s.Ports {
					if p.HostIP != "127.0.0.1" {
						t.Errorf("%s publishes a port at %q", name, p.HostIP)
					}
				}
				for _, v := range s.Volumes {
					if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && (err != nil || !v.ReadOnly) {
						t.Errorf("%s mounts %s, read only: %t: %v", name, v.Source, v.ReadOnly, err)
					}
				}
				if s.Build == nil {
					continue
				}
				bridges++
				if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
					t.Error(err)
				}
				if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
					t.Errorf("%s may too much: %+v", name, s)
				}
				if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == "/data" }) && !slices.ContainsFunc(s.Tmpfs, func(to string) bool { return strings.HasPrefix(to, "/data:") }) {
					t.Errorf("%s has no /data", name)
				}
				if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= waits {
					t.Errorf("%s gets %v to end, and needs %s", name, s.StopGracePeriod, waits)
				}
			}
			if bridges == 0 {
				t.Error("there is no bridge")
			}
		})
	}
}

// TestComposeInstances: the balancer and Prometheus know both instances, which are the same.
func TestComposeInstances(t *testing.T) {
	project := load(t, "compose.cluster.yaml")
	one, two := project.Services["bridge-one"], project.Services["bridge-two"]
	if len(one.Secrets) != 2 || len(two.Secrets) != 2 || len(project.Services["balancer"].Secrets) != 0 {
		t.Errorf("secrets of the instances: %v, %v, of the balancer %v", one.Secrets, two.Secrets, project.Services["balancer"].Secrets)
	}
	for config, want := range map[string]string{"balancer": "reverse_proxy bridge-one:8080 bridge-two:8080 {", "prometheus": `["bridge-one:9180", "bridge-two:9180"]`} {
		if !strings.Contains(project.Configs[config].Content, want) {
			t.Errorf("%s does not have %s: %s", config, want, project.Configs[config].Content)
		}
	}
	if password := project.Services["postgres"].Environment["POSTGRES_PASSWORD_FILE"]; password == nil || *password != "/run/secrets/password" {
		t.Errorf("the password of PostgreSQL is in %v", password)
	}
}
