// Package sources is the configuration of providers, single skills and registries. It reads
// them from a Caddyfile, checks them, and loads their transports and credentials. The handler
// of package bridge embeds [Sources] in its own configuration.
package sources
