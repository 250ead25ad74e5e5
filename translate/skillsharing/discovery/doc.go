// Package discovery reads the index, the registries' answers and the descriptors of one source of skills, through a cache. It
// follows redirects, checks each document for each reader that shares it, and limits requests that fail.
package discovery
