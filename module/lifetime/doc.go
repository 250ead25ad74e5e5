// Package lifetime holds what lives longer than one configuration of Caddy: values
// that configurations share ([Pool]), what a handler and its requests use ([Usage]),
// and how calls are answered before the process exits ([WatchStop]). Package bridge
// uses all of it; the packages that keep something over reloads use the pool.
package lifetime
