package servers

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// StartNginx starts nginx as a reverse proxy, if it is installed. It returns its address and its
// processes.
func (s *Starter) StartNginx(u *Upstream) (address string, pids []int) {
	return s.startNginxWith(u, "", "location "+ProxyPath+" { "+toProvider+" }", ProxyPath, []byte("{}"))
}

// toProvider has directives that send a request to the provider.
const toProvider = `proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection "";`

// StartScriptedNginx starts nginx with a script that serves execute_skill, if nginx and its module njs are installed.
func (s *Starter) StartScriptedNginx(u *Upstream, folder string) (address string, pids []int) {
	options, _ := exec.CommandContext(s.Context, "nginx", "-V").CombinedOutput()
	found := regexp.MustCompile(`--modules-path=(\S+)`).FindSubmatch(options)
	if found == nil {
		return "", nil
	}
	module := filepath.Join(string(found[1]), "ngx_http_js_module.so")
	if _, err := os.Stat(module); err != nil {
		return "", nil
	}
	return s.startNginxWith(u, "load_module "+module+";", "js_import peers from "+filepath.Join(folder, "peers.js")+";\n"+
		"location "+BridgePath+" { js_content peers.call; }\nlocation = /provider { internal; rewrite ^ "+ProxyPath+" break; "+toProvider+" }",
		BridgePath, []byte(`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"args":{}}}`))
}

// StartNginxWith starts nginx with directives of its configuration and of its server, and sends it a first request.
func (s *Starter) startNginxWith(u *Upstream, directives, locations, path string, body []byte) (address string, pids []int) {
	file, err := exec.LookPath("nginx")
	if err != nil {
		return "", nil
	}
	address = "127.0.0.1:" + strconv.Itoa(freePorts(1)[0])
	dir := failure.Must(os.MkdirTemp(s.Dir, "nginx-"))
	config := filepath.Join(dir, "nginx.conf")
	failure.Check(os.WriteFile(config, fmt.Appendf(nil, `daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr;
%[4]s
events { worker_connections 4096; }
http {
	access_log off; keepalive_requests 1000000000;
	client_body_temp_path %[1]s/nginx-body; proxy_temp_path %[1]s/nginx-proxy; fastcgi_temp_path %[1]s/nginx-f;
	uwsgi_temp_path %[1]s/nginx-u; scgi_temp_path %[1]s/nginx-s;
	client_max_body_size 2m; client_body_buffer_size 256k;
	upstream provider { server %[2]s; keepalive 512; keepalive_requests 1000000000; }
	server {
		listen %[3]s;
		%[5]s
	}
}
`, dir, u.Address, address, directives, locations), 0o600))
	p := s.start(nil, nil, "nginx", file, "-c", config, "-p", dir, "-e", "stderr")
	p.ready(s.Context, address)
	failure.Must(wire.Once(http.MethodPost, address, path, body)) // starts its workers
	return address, append(p.children(), p.Pid())
}
