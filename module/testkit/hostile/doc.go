// Package hostile has servers for the tests of faults and attacks: a provider that misbehaves on
// demand, a name server with wrong answers, certificates, and a listener that must not be reached.
// Only tests import it. Each part reports problems to the [testing.TB] that it was created with, and
// stops when that test ends.
//
//	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
//	p.On("acme/echo", hostile.Invoke, hostile.Reset())
//	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
//	a := c.Execute("acme.echo", nil)
//	if a.Outcome() != "ENDPOINT_UNREACHABLE" || p.Posts(a.Call) != 1 { … }
//
// [NewProvider] and [NewTLSProvider] listen on a loopback port and publish each
// [Skill]: an index, a descriptor, an endpoint, a status URL, a result URL; and a
// token endpoint at [Provider.TokenURL]. By default, every invocation completes at once, and its
// output names the skill and the call.
//
// [Provider.On] sets the actions for the requests of a [Part] of a skill, in order; the last action
// is repeated. [Provider.Script] chooses the action by the number of the request. An [Action] sends
// a valid answer (action.go), breaks the connection or sends invalid HTTP (wire.go), answers slowly
// or never (drip.go), or sends too much (flood.go).
//
// A provider records each [Request] ([Provider.Requests], [Provider.Count]), counts the executions
// of each call ([Provider.Executions], [Provider.Posts], [Provider.Duplicates]) and searches
// requests for texts that must not be sent ([Provider.MustNotReceive]). After [Provider.Lean], it
// records no requests, for long tests.
package hostile
