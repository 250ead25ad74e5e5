// Command caddy is Caddy with its standard modules, the bridge
// (http.handlers.skill_bridge) and the demo API
// (http.handlers.skill_bridge_demo). It exists so that
//
//	go run ./module/cmd/caddy run --config caddyfile-examples/quickstart.Caddyfile
//
// needs only Go. For production, build Caddy with xcaddy and package module, or this one with the tag
// nodemo, as releases are: neither has the demo provider.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
)

func main() { caddycmd.Main() }
