// Package turns shares the time of the processor between the sources of skills and those who call them: a [Queue] runs some
// pieces of work at a time, and lets none of them keep the others waiting.
package turns
