// Package turns shares processor time fairly between sources of skills and their callers: a [Queue] limits how many pieces
// of work run at a time, and no source or caller can keep the others waiting.
package turns
