// Package testbed runs a real Caddy for tests, in this process or in one of its own,
// and holds what belongs to that: a client that calls the bridge in it, load, Caddy's
// log, and measures of what is left behind. Only tests import it. It is an ordinary
// package, so that the tests of several packages can. A problem is reported to the
// [testing.TB] that each part is made with, and each part ends with the test.
//
// It knows Caddy, not the bridge: a test that uses it imports
// github.com/skill-bridge/caddy-skill-bridge/module for its effect. Providers are in
// package hostile.
//
//	c := testbed.StartCaddy(t, testbed.Bridge("provider "+url+" {", "namespace acme", "}"))
//	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" { … }
//
// [StartCaddy] runs a Caddyfile in this process, [StartProcess] in one of its
// own, for which a package's TestMain calls [Main]. In a Caddyfile, {$PORT} and
// every other word of that form beginning with PORT stands for a free port, and
// {$ADMIN} for a free port of the admin API. [Bridge] is a Caddyfile with a
// bridge that may call providers on loopback addresses, [Site] one with any
// directives, among them [Accounts]. Neither way of running Caddy lets its own
// certificate authority get into what the machine trusts. Both have a [Client],
// whose calls give an [Answer], and a [Log].
//
// Measures are [Eventually], [CheckLeaks], [HeapInUse], [OpenFiles], [CPU], and
// [Load], which calls with many workers and collects the outcomes.
package testbed
