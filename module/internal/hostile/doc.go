// Package hostile is what the tests of faults and attacks call and are called by: a
// provider that misbehaves on demand, a name server that lies, certificates, and a
// listener that must not be reached. Only tests import it. It is an ordinary package,
// so that the tests of several packages can. A problem is reported to the [testing.TB]
// that each part is made with, and each part ends with the test.
//
//	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
//	p.On("acme/echo", hostile.Invoke, hostile.Reset())
//	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
//	a := c.Execute("acme.echo", nil)
//	if a.Outcome() != "ENDPOINT_UNREACHABLE" || p.Posts(a.Call) != 1 { … }
//
// [NewProvider] and [NewTLSProvider] listen on a loopback port and publish each
// [Skill]: an index, a descriptor, an endpoint, a status URL, a result URL; and a
// token endpoint at [Provider.TokenURL]. Unless a test says otherwise, every
// skill is completed at once and its output names the skill and the call.
//
// [Provider.On] gives a [Part] of a skill its actions, one for each request, of
// which the last is repeated. [Provider.Script] chooses them by the request's
// number. An [Action] answers properly (action.go), breaks the connection or sends
// other bytes than HTTP allows (wire.go), answers slowly or never (drip.go), or too
// much (flood.go).
//
// A provider remembers each [Request] ([Provider.Requests], [Provider.Count]), counts
// the executions of each call ([Provider.Executions], [Provider.Posts],
// [Provider.Duplicates]) and looks for texts that must not arrive
// ([Provider.MustNotReceive]). [Provider.Lean] makes it forget for long tests.
package hostile
