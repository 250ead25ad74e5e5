// Package discovery reads the index, the registries' answers and the descriptors of one source of skills, through a cache.
// It follows redirects, checks for each reader whether it may use a document, and limits the requests that fail.
package discovery
