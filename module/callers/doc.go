// Package callers authenticates callers by keys and by access tokens.
//
// For keys, the operator writes a file with a line for each: a principal and the SHA-256 of the key. The file is read again when it
// changes.
//
// Tokens are JWTs of issuers (RFC 9068). The bridge reads the keys of an issuer when the first of its tokens arrives, and again each hour.
package callers
