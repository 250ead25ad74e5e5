// Package demo is a demo provider of the Skill Sharing Protocol 1.0.0, the Caddy handler
// http.handlers.skill_bridge_demo.
//
// Its skills do small but real work. They cover the features of the protocol: public and protected
// (API key, OAuth 2.0 client credentials), immediate and asynchronous, with the output in the status
// or only at the result URL, failing runs, a skill that is only reachable by its descriptor's URL,
// and one for an unsupported protocol version. The folder descriptors has their descriptors.
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
// Runs are in memory. They survive reloads with the same origin and secrets, but not a restart. When the process exits, the provider answers
// until its runs have ended.
package demo
