// Package discovery reads the index, the registries' answers and the descriptors of one source of skills, through a cache. It
// follows redirects, judges each document for each client that shares it, and bounds the requests that fail.
package discovery
