// Package network carries requests to providers: Caddy's HTTP transport, with a guard
// that judges every address before it is dialed, and a meter that bounds what servers
// send on connections of HTTP/2. Package bridge makes a [Transport] for each source.
package network
