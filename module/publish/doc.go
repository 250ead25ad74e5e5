// Package publish is the handler http.handlers.skill_publish, with its directive skill_publish of the Caddyfile: it publishes the operations of the HTTP API
// behind it as skills of the Skill Sharing Protocol.
//
// [documents] are read, and read again when they change. An invocation becomes a request to the next handler, which goes on when the
// caller has got a 202; the ledger of the database has its run.
package publish
