// Package skillbridge is Caddy's side of Skill Bridge: an HTTP handler that
// lets agents use the skills of other services, found and invoked with the
// Skill Sharing Protocol, through the Skills Protocol (JSON-RPC 2.0).
//
// The package wires: it reads the configuration ([Handler], in JSON or as the
// skill_bridge directive of the Caddyfile), gives the bridge its transports and
// its cache, and turns what the bridge reports into log lines, metrics and spans.
// Caddy's admin API and its command line are added to here, and browsers get a page.
// What a call means is decided in package translate, which knows no Caddy.
//
// Two things happen here and nowhere else. Every address is judged before it is
// dialed, where no request can pass it by. And what is worth keeping over a
// reload of the configuration is kept for as long as a configuration or a
// request uses it.
package skillbridge
