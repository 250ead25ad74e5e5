// Package tokens gets access tokens of OAuth 2.0: it has the requests to token endpoints, the tokens in memory, and the rotation of refresh tokens in
// the database. Credentials modules add the grants.
package tokens
