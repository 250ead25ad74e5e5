// Package fronts connects the protocols that agents speak with Caddy: their options, the paths
// at which a handler serves them, and their well-known documents.
package fronts
