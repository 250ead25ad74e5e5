// Package demo is a demo API, the Caddy handler http.handlers.skill_bridge_demo, to be published by http.handlers.skill_publish: see
// caddyfile-examples/quickstart.Caddyfile.
//
// Its operations do small but real work: without a credential, with an API key, with OAuth 2.0 client credentials, and one takes a few
// seconds. It answers:
//
//	GET  /openapi.yaml     its OpenAPI document
//	POST /<operation>      an operation of that document
//	POST /token            an access token (RFC 6749, section 4.4)
//	GET  /authorize        an explanation: only client credentials are granted
package demo
