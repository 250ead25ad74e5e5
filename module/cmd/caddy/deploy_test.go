package main_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestManualsDeployment: Caddy takes the Caddyfiles of the containers, and they are formatted.
func TestManualsDeployment(t *testing.T) {
	balancer := regexp.MustCompile(`(?s)\n  balancer:\n    content: \|\n(.*?)\n  \w`).FindStringSubmatch(readFile(t, "caddyfile-examples/deploy/compose.cluster.yaml"))
	if balancer == nil {
		t.Fatal("the compose file has no Caddyfile of a balancer")
	}
	for name, text := range map[string]string{
		"demo": readFile(t, "caddyfile-examples/deploy/demo.Caddyfile"), "cluster": readFile(t, "caddyfile-examples/deploy/kubernetes/Caddyfile"),
		"balancer": strings.ReplaceAll(balancer[1], "      ", "") + "\n",
	} {
		if formatted := string(caddyfile.Format([]byte(text))); formatted != text {
			t.Errorf("%s is not formatted:\n%s", name, text)
		}
		adapt(t, text)
	}
}

// TestManualsImages: images have full names, without which podman and buildah do not know where they are.
func TestManualsImages(t *testing.T) {
	found := 0
	for _, file := range []string{"Dockerfile", "compose.yaml", "compose.cluster.yaml"} {
		for _, image := range regexp.MustCompile(`(?m)^(?:FROM|    image:) (\S+)`).FindAllStringSubmatch(readFile(t, "caddyfile-examples/deploy/"+file), -1) {
			found++
			if image[1] != "scratch" && !strings.HasPrefix(image[1], "docker.io/") {
				t.Errorf("%s names %s", file, image[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("%d images", found)
	}
}

// TestManualsDemoContainer: the demo of the container works, and is ready.
func TestManualsDemoContainer(t *testing.T) {
	e := newExample(t, readFile(t, "caddyfile-examples/deploy/demo.Caddyfile"))
	e.replace("127.0.0.1:8081", "127.0.0.1:"+testbed.FreePort(t))
	b := e.start()
	deadline := time.Now().Add(10 * time.Second)
	call := func() string {
		return string(b.call("execute_skill", `{"name":"demo.markdown","args":{"markdown":"# Hello"}}`).Result)
	}
	answer := call()
	for !strings.Contains(answer, "Hello") && time.Now().Before(deadline) { // the publisher reads its document after the start
		time.Sleep(50 * time.Millisecond)
		answer = call()
	}
	if !strings.Contains(answer, "Hello") {
		t.Error(answer)
	}
	body := ""
	for ; body != `{"status":"ready"}`+"\n" && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		body = b.send(http.MethodGet, strings.TrimSuffix(b.endpoint, "/rpc")+"/readyz", "").body
	}
	if body != `{"status":"ready"}`+"\n" {
		t.Error(body)
	}
}
