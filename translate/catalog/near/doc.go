// Package near finds names that are similar to an unknown one, so that an error can suggest them. Its work is bounded for
// any number of names, and each source of names gets its share of it.
package near
