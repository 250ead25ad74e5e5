// Package front has what the protocols that agents speak have in common: which callers are admitted, the details of a
// failure, as the Skill Sharing Protocol defines them, and the writer of JSON answers.
package front
