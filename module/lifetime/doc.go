// Package lifetime manages what lives longer than one configuration of Caddy: values
// that configurations share ([Pool]), resources that a handler and its requests use
// ([Usage]), and calls that are answered before the process exits ([WatchStop]).
// Package bridge uses all of it; packages that keep values over reloads use the pool.
package lifetime
