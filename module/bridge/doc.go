// Package bridge is the HTTP handler http.handlers.skill_bridge. It lets agents use the
// skills of other services, which it finds and invokes with the Skill Sharing Protocol,
// through the Skills Protocol (JSON-RPC 2.0).
//
// It reads the configuration ([Handler], in JSON or as the directive skill_bridge of the
// Caddyfile; providers, skills and registries are in package sources), gives the bridge its transports and its cache, serves requests, and keeps
// over reloads what configurations share. What a call means is decided in package
// translate, which knows no Caddy.
package bridge
