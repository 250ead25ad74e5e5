// Package discovery reads the index, the registries' answers and the descriptors of one source of skills, through a cache. It
// follows redirects, judges each document for the client that wants it, and bounds how many requests may bring nothing.
package discovery
