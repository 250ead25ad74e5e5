package bridge_test

import (
	"strings"
	"testing"
)

// TestNames: bridges of one configuration have different names. One may have none, and those that Caddy makes of one directive are one bridge.
func TestNames(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	site := func(address string, lines ...string) string {
		return address + " {\n\t" + strings.Join(lines, "\n\t") + "\n}\n"
	}
	bridge := func(lines ...string) string { return "skill_bridge /rpc {\n" + strings.Join(lines, "\n") + "\n}" }
	const unnamed, snippet = "another skill_bridge without a name", "(bridge) {\n\tskill_bridge {\n\t\tname {args[0]}\n\t}\n}\n"
	for about, c := range map[string]struct{ caddyfile, fault string }{
		"one":                      {site("http://a:80", bridge()), ""},
		"behind other matchers":    {site("http://a:80", bridge(), strings.Replace(bridge("audit"), "/rpc", "/other", 1), "@m path /m", strings.Replace(bridge(), "/rpc", "@m", 1), "skill_bridge"), ""},
		"one and a named one":      {site("http://a:80", bridge(), bridge("name two", "audit")), ""},
		"two in a site":            {site("http://a:80", bridge(), bridge("audit")), unnamed + " (at Caddyfile:6), and"},
		"alike, in a site":         {site("http://a:80", bridge(), bridge()), unnamed + " (at Caddyfile:6), and"},
		"alike, at two hosts":      {site("http://a:80", bridge()) + site("http://b:80", bridge()), "in each, which stays the same for ever and on all instances, at Caddyfile:11"},
		"alike, at two ports":      {site("http://a:80", bridge()) + site("http://a:81", bridge()), unnamed},
		"the default and no name":  {site("http://a:80", bridge()) + site("http://a:81", bridge("name skill_bridge/rpc")), unnamed},
		"in other handlers":        {site("http://a:80", "route {\nhandle {\n"+bridge()+"\n}\n}", "handle_errors {\n"+bridge()+"\n}"), unnamed},
		"a snippet, twice":         {"(bridge) {\n\tskill_bridge\n}\n" + site("http://a:80", "import bridge") + site("http://b:80", "import bridge"), unnamed},
		"a snippet with a name":    {snippet + site("http://a:80", "import bridge one") + site("http://b:80", "import bridge two"), ""},
		"one bridge at two sites":  {snippet + site("http://a:80", "import bridge one") + site("http://b:81", "import bridge one"), ""},
		"one name, other options":  {site("http://a:80", bridge("name one"), bridge("name one", "audit")), `"one" is also the name of another skill_bridge of this configuration, which has other options (at Caddyfile:`},
		"two ports of a site":      {site("http://a:80, http://b:81, https://c", bridge()), ""},
		"two ports and two sites":  {site("http://a:80, http://a:81", bridge()) + site("http://b:80, http://b:82", bridge("name b")), ""},
		"a named route":            {site("&(bridge)", bridge()) + site("http://a:80", "invoke bridge") + site("http://b:80", "invoke bridge"), ""},
		"a named route and a site": {site("&(bridge)", bridge()) + site("http://a:80", "invoke bridge") + site("http://b:80", "skill_bridge"), unnamed},
		"a named route, two ports": {site("&(bridge)", bridge()) + site("http://a:80", "invoke bridge") + site("http://b:81", "invoke bridge"), unnamed},
		"a named route, named":     {site("&(bridge)", bridge("name one")) + site("http://a:80", "invoke bridge") + site("http://b:81", "invoke bridge"), ""},
	} {
		err := validate(t, "{\n\tadmin off\n\tskip_install_trust\n}\n"+c.caddyfile)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", about, err, c.fault)
		}
	}
}

// TestNamesInJSON: bridges that were written as JSON need names, too, if there are two, also if they are the same.
func TestNamesInJSON(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	const far = `"skills":[{"name":"far","url":"https://a.example/x"}],"priority":"low"`
	for _, c := range []struct{ one, two, fault string }{
		{far, far, "name (with far): this configuration has another skill_bridge without a name (with far), and"},
		{far, `"name":"skill_bridge",` + far, "another skill_bridge without a name"},
		{far, `"name":"one",` + far, ""},
		{`"name":"one",` + far, `"name":"one",` + far, ""},
		{`"name":"one",` + far, `"name":"one","priority":"low","mcp":{}`, `name (with no skills at /mcp): "one" is also the name of another skill_bridge of this configuration, which has other options (with far)`},
	} {
		route := func(handler string) string { return `{"handle":[{"handler":"skill_bridge",` + handler + `}]}` }
		err := validateJSON(t, `{"admin":{"disabled":true},"apps":{"http":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[`+route(c.one)+","+route(c.two)+`]}}}}}`)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s, %s: %v, want %q", c.one, c.two, err, c.fault)
		}
	}
}
