// Package fronts has what the protocols that agents speak need of Caddy: their options, the paths
// at which a handler serves them, and the documents beside them.
package fronts
