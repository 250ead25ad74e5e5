// Package testbed runs Caddy for tests, in this process or in a child process. It also has a client
// of the bridge, a load generator, Caddy's log, and measurements of resources. Only tests import it.
// Each part reports problems to the [testing.TB] that it was created with, and stops when that test
// ends.
//
// The package does not import the bridge: tests import
// github.com/skill-bridge/caddy-skill-bridge/module, which registers it. Providers are in package
// hostile.
//
//	c := testbed.StartCaddy(t, testbed.Bridge("provider "+url+" {", "namespace acme", "}"))
//	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" { … }
//
// [StartCaddy] runs a Caddyfile in this process, [StartProcess] in a child process, for which
// TestMain has to call [Main]. In a Caddyfile, {$PORT} and other such placeholders that begin with
// PORT stand for free ports, and {$ADMIN} for a free port of the admin API. [Bridge] returns a
// Caddyfile with a bridge that may call providers on loopback addresses, [Site] one with any
// directives, such as [Accounts]. Caddy's certificate authorities are never added to the trust store
// of this machine. Both have a [Client], whose calls return an [Answer], and a [Log].
//
// [CheckLeaks], [HeapInUse], [OpenFiles] and [CPU] measure resources, [Eventually] waits for a
// condition, and [Load] calls with many workers and counts the outcomes.
package testbed
