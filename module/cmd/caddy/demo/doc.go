// Package demo is a provider of the Skill Sharing Protocol 1.0.0 as a Caddy
// handler, http.handlers.skill_bridge_demo: something real for the bridge to
// discover, authenticate to, invoke and poll, without an account anywhere.
//
// Its skills do small but real work. Between them they show the ways a skill
// can behave: public and protected (API key, OAuth 2.0 client credentials),
// immediate and asynchronous, with the output in the status or only at the
// result URL, failing as a run, found by the descriptor's URL only, and declared
// for a protocol version that is too new. The folder descriptors holds what the
// provider publishes about them.
//
// On its origin it answers:
//
//	GET  /.well-known/skill-sharing   the index (section 4.3)
//	GET  /skills/<slug>.json          a descriptor (section 3)
//	POST /skills/<slug>/executions    an invocation (section 5.3)
//	GET  /executions/<id>             the status of a run (section 5.4)
//	GET  /executions/<id>/result      its result (section 5.4)
//	POST /token                       an access token (RFC 6749, section 4.4)
//	GET  /authorize                   an explanation: only client credentials are granted
//
// Runs live in memory. They survive reloads, as long as the origin and the secrets
// stay the same, but not a restart.
package demo
