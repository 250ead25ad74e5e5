// Package hostile is what the tests of faults and attacks are made with: a
// provider that misbehaves on demand, a name server that lies, a listener that
// nobody may reach, a real Caddy in this process or in one of its own, a client
// that calls it, and measures of what is left behind. Only tests import it. It is
// an ordinary package, so that the tests of several packages can; what goes wrong
// is reported to the [testing.TB] that each part is made with, and each part ends
// with the test.
//
// It knows Caddy, not the bridge: a test that uses it imports
// github.com/skill-bridge/caddy-skill-bridge/module for its effect.
//
//	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
//	p.On("acme/echo", hostile.Invoke, hostile.Reset())
//	c := hostile.StartCaddy(t, hostile.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
//	a := c.Execute("acme.echo", nil)
//	if a.Outcome() != "ENDPOINT_UNREACHABLE" || p.Posts(a.Call) != 1 { … }
//
// # The provider
//
// [NewProvider] and [NewTLSProvider] listen on a loopback port and publish each
// [Skill]: an index, a descriptor, an endpoint, a status URL, a result URL; and a
// token endpoint at [Provider.TokenURL]. As long as no test says otherwise, every
// skill is completed at once and its output names the skill and the call.
//
// [Provider.On] gives a [Part] of a skill its actions, one for each request, of
// which the last is repeated. [Provider.Script] chooses them by the request's
// number. An [Action] is one of
//
//   - proper answers: [Usual], [Respond], [Complete], [Accept], [AcceptFailing],
//     [AcceptForResult], [Fail], [State], [Problem], [Issue], [Redirect], [Handle];
//   - broken connections: [Reset], [Close], [ResetMidBody], [Truncate],
//     [TruncateChunked], [ThenClose];
//   - silence: [Hang], [HangMidBody], [Gate.Then], [DripBody], [DripHeaders];
//   - too much: [EndlessBody], [EndlessHeaders], [Bomb], [Deep], [RawOutput],
//     [Interim];
//   - lies: [Lie], [Garbage], [TwoResponses], [SwitchProtocols], [Raw],
//     [RawOpen].
//
// What concerns the whole provider: [Provider.Down] and [Provider.Up],
// [Provider.Disconnect], [Provider.OnConnection]. Addresses that nobody answers
// at: [Refused] and [BlackHole]. Certificates: [NewCA] with one of [Valid],
// [Expired], [WrongHost], [SelfSigned], [TLS11], [StalledHandshake].
//
// It remembers each [Request] ([Provider.Requests], [Provider.Count]), counts
// what each call had executed ([Provider.Executions], [Provider.Posts],
// [Provider.Duplicates]) and looks for texts that must not arrive
// ([Provider.MustNotReceive]). [Provider.Lean] makes it forget for long tests.
//
// # Names and canaries
//
// [NewNameServer] answers as [NameServer.Set] says, or in turn as
// [NameServer.Rotate] says: [Addresses], [NXDomain], [ServFail], [Silence], [Late],
// [Behind]. [NewCanary] is a listener that fails the test if anyone connects.
//
// # Caddy
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
// # Measures
//
// [Eventually], [CheckLeaks], [Goroutines], [HeapInUse], [OpenFiles], [RSS], and
// [Load], which calls with many workers and collects the outcomes.
package hostile
