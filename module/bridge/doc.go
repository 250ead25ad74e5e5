// Package bridge is the HTTP handler http.handlers.skill_bridge. It lets agents use the
// skills of other services, which it finds and invokes with the Skill Sharing Protocol,
// through the Skills Protocol (JSON-RPC 2.0).
//
// It reads the configuration: [Handler], in JSON or as the directive skill_bridge of the
// Caddyfile, with the providers, skills and registries of package sources. It makes the
// transports and the cache, serves requests, and keeps the shared state of configurations
// over reloads. Package translate, which does not depend on Caddy, executes the calls.
package bridge
