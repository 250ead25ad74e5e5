// Package skillbridge adds Skill Bridge to a build of Caddy: it imports the modules and
// the commands, and nothing else. Build it in with
//
//	xcaddy build --with github.com/skill-bridge/caddy-skill-bridge/module
//
// The modules are the HTTP handler http.handlers.skill_bridge, with the directive
// skill_bridge of the Caddyfile (package bridge), the HTTP handler
// http.handlers.skill_publish with the directive skill_publish (package publish), the credentials
// http.skill_bridge.credentials.* (package credentials), and the paths
// /skill_bridge/* of the admin API (package admin). The command is `caddy skill-bridge`
// (package command).
package skillbridge

import (
	_ "github.com/skill-bridge/caddy-skill-bridge/module/admin"       // admin.api.skill_bridge
	_ "github.com/skill-bridge/caddy-skill-bridge/module/bridge"      // http.handlers.skill_bridge
	_ "github.com/skill-bridge/caddy-skill-bridge/module/command"     // caddy skill-bridge
	_ "github.com/skill-bridge/caddy-skill-bridge/module/credentials" // http.skill_bridge.credentials.*
	_ "github.com/skill-bridge/caddy-skill-bridge/module/publish"     // http.handlers.skill_publish
)
