// Package ecma reads regular expressions of ECMA-262, which the patterns of JSON Schema are, and translates them for package regexp.
package ecma
