package fronts_test

import (
	"encoding/json" // reads lines of Caddy's log
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// Warnings about routes in front of the bridge: paths that are not reached, and endpoints without the authentication of others.
func TestWarningsOfRoutes(t *testing.T) {
	at := func(matcher string) string {
		return strings.Replace(testbed.Accounts("ada"), "basic_auth", "basic_auth "+matcher, 1)
	}
	for about, c := range map[string]struct {
		before, matcher, options, after string
		missed, open                    string // what the warnings list
	}{
		"no matcher":              {options: "rpc\na2a\nmcp"},
		"only the endpoint":       {matcher: "/a2a", options: "a2a", missed: "[/a2a/<skill> /.well-known/agent-card.json]"},
		"no cards":                {matcher: "/a2a*", options: "a2a", missed: "[/.well-known/agent-card.json]"},
		"that of one mount":       {matcher: "/rpc", options: "rpc\nmcp", missed: "[/mcp]"},
		"a slash at the end":      {matcher: "/rpc", options: "rpc"},
		"all paths":               {before: "@agents path /a2a /a2a/* /.well-known/*", matcher: "@agents", options: "a2a"},
		"no metadata":             {matcher: "/mcp*", options: "mcp {\nauthorization_server https://login.example.com\n}", missed: "[/.well-known/oauth-protected-resource/mcp]"},
		"a block around it":       {before: "handle /rpc* {", after: "}", options: "rpc\na2a", missed: "[/a2a /a2a/<skill> /.well-known/agent-card.json]"},
		"a prefix":                {before: "handle_path /x/* {", after: "}", options: "rpc\na2a"},
		"a rewrite":               {before: "rewrite /api/* /rpc", options: "rpc"},
		"all authenticated":       {before: at(""), options: "rpc\na2a\nmcp"},
		"one authenticated":       {before: at("/rpc*"), options: "rpc\na2a\nmcp", open: "[/a2a /a2a/ /a2a/<skill> /mcp /mcp/]"},
		"without skills' paths":   {before: at("/a2a"), options: "a2a", open: "[/a2a/ /a2a/<skill>]"},
		"without a slash":         {before: at("/rpc"), options: "rpc", open: "[/rpc/]"},
		"all but the cards":       {before: "@private not path /.well-known/*\n" + at("@private"), options: "rpc\na2a\nmcp"},
		"all paths of a list":     {before: "@private path /rpc /rpc/ /a2a /a2a/* /mcp /mcp/\n" + at("@private"), options: "rpc\na2a\nmcp"},
		"a regular expression":    {before: "@private path_regexp ^/(rpc|mcp)\n" + at("@private"), options: "rpc\na2a", open: "[/a2a /a2a/ /a2a/<skill>]"},
		"by another property":     {before: "@private header Authorization *\n" + at("@private"), options: "rpc\na2a"},
		"outside of a prefix":     {before: at("/x/rpc*") + "\nhandle_path /x/* {", after: "}", options: "rpc\nmcp", open: "[/mcp /mcp/]"},
		"in a block of its own":   {before: "route /mcp* {\n" + at("") + "\n}", options: "rpc\nmcp", open: "[/rpc /rpc/]"},
		"forward_auth":            {before: "forward_auth /rpc* 127.0.0.1:9 {\nuri /check\ncopy_headers Remote-User\n}", options: "rpc\na2a", open: "[/a2a /a2a/ /a2a/<skill>]"},
		"refused without":         {before: at("/rpc*"), options: "rpc\nmcp\nrequire_principal", open: "[/mcp /mcp/]"},
		"authentication after it": {after: at("/rpc*"), options: "rpc\nmcp"},
	} {
		t.Run(about, func(t *testing.T) {
			c2 := testbed.StartCaddy(t, testbed.Site("route {\n"+c.before+"\nskill_bridge "+c.matcher+" {\n"+c.options+"\n}\n"+c.after+"\n}"))
			defer c2.Stop()
			for field, want := range map[string]string{"paths": c.missed, "open": c.open} {
				got := ""
				for _, line := range c2.Log.Lines(`"level":"warn"`, `"`+field+`":[`) {
					var fields map[string]any
					if err := json.Unmarshal([]byte(line), &fields); err != nil {
						t.Fatal(err)
					}
					if principal := strings.Contains(line, "no principal"); principal != strings.Contains(c.options, "require_principal") && field == "open" {
						t.Error(line)
					}
					got += fmt.Sprint(fields[field])
				}
				if got != want {
					t.Errorf("%s: %q, want %q", field, got, want)
				}
			}
		})
	}
}

// Warnings about handlers that Caddy runs before the bridge, and that answer or rewrite requests for its paths: in a site, where Caddy orders the
// directives, and in JSON, where nobody does.
func TestWarningsOfHandlersInFront(t *testing.T) {
	const all = "[/rpc /a2a /a2a/<skill> /.well-known/agent-card.json /mcp]"
	for about, c := range map[string]struct {
		site, matcher, options string // matcher: of the bridge, whose default options are all mounts
		hidden, rewritten, by  string // what the warnings list
	}{
		"respond":                  {site: `respond "not found" 404`, hidden: all, by: "[respond]"},
		"respond for all paths":    {site: `respond /* "not found" 404`, hidden: all, by: "[respond]"},
		"respond for one path":     {site: `respond /healthz 200`},
		"respond for a path of it": {site: `respond /mcp 410`, hidden: "[/mcp]", by: "[respond]"},
		"respond for the rest":     {site: "@rest not path /rpc /rpc/ /a2a*\nrespond @rest 404", hidden: "[/.well-known/agent-card.json /mcp]", by: "[respond]"},
		"respond to OPTIONS":       {site: "@options method OPTIONS\nrespond @options 204"},
		"respond to POST":          {site: "@post method POST\nrespond @post 405", hidden: "[/rpc /a2a /a2a/<skill> /mcp]", by: "[respond]"},
		"respond to others":        {site: "@others not method POST GET\nrespond @others 405"},
		"respond to a header":      {site: "@probe header User-Agent kube-probe/*\nrespond @probe 200"},
		"respond to a network":     {site: "@far not remote_ip private_ranges\nrespond @far 403"},
		"respond for a variable":   {site: "@own path {vars.health}\nrespond @own 200"},
		"early hints":              {site: "respond 103"},
		"redir":                    {site: "redir https://other.example.com{uri}", hidden: all, by: "[redir]"},
		"redir of the root":        {site: "redir / /rpc"},
		"abort":                    {site: "abort", hidden: all, by: "[abort]"},
		"error":                    {site: "error 503", hidden: all, by: "[error]"},
		"metrics":                  {site: "metrics", hidden: all, by: "[metrics]"},
		"metrics at their path":    {site: "metrics /metrics"},
		"handle":                   {site: "handle {\nrespond 404\n}", hidden: all, by: "[respond]"},
		"handle for a path":        {site: "handle /files/* {\nfile_server\n}"},
		"handle that passes on":    {site: "handle {\nheader X-A b\n}"},
		"handle with a proxy":      {site: "handle {\nreverse_proxy 127.0.0.1:9\n}", hidden: all, by: "[reverse_proxy]"},
		"handle with files":        {site: "handle {\nfile_server\n}", hidden: all, by: "[file_server]"},
		"files that pass on":       {site: "handle {\nfile_server {\npass_thru\n}\n}"},
		"two blocks":               {site: "handle /mcp* {\nheader X-A b\n}\nhandle {\nrespond 404\n}", hidden: "[/rpc /a2a /a2a/<skill> /.well-known/agent-card.json]", by: "[respond]"},
		"handle_path":              {site: "handle_path /mcp* {\nrespond 404\n}", hidden: "[/mcp]", by: "[respond]"},
		"route":                    {site: "route {\nheader X-A b\nrespond 404\n}", hidden: all, by: "[respond]"},
		"route with a matcher":     {site: "route {\nrespond /x 404\n}"},
		"a proxy after it":         {site: "reverse_proxy 127.0.0.1:9"},
		"files after it":           {site: "file_server"},
		"forward_auth":             {site: "forward_auth 127.0.0.1:9 {\nuri /check\n}"},
		"basic_auth":               {site: testbed.Accounts("ada")},
		"headers":                  {site: "header Cache-Control no-store\nencode gzip\nrequest_body {\nmax_size 1MB\n}"},
		"another bridge":           {site: "route {\nskill_bridge {\nname other\nrpc\nallow_anonymous\n}\n}", hidden: "[/rpc]", by: "[skill_bridge]"},
		"a bridge for all":         {site: "route {\nskill_bridge {\nname other\nallow_anonymous\n}\n}", hidden: all, by: "[skill_bridge]"},
		"without mounts":           {site: "respond 404", matcher: "/agents", options: " ", hidden: "[/agents]", by: "[respond]"},
		"without mounts or paths":  {site: "respond 404", options: " ", hidden: "[/rpc]", by: "[respond]"},
		"without mounts, reached":  {site: "respond / 200\nredir /old /new", matcher: "/agents/*", options: " "},
		"another block":            {site: "handle /rpc* {\nheader X-A b\n}\nhandle {\nBRIDGE\n}", hidden: "[/rpc]", by: "[handle]"},
		"a block before it":        {site: "handle /x* {\nrespond 404\n}\nhandle {\nBRIDGE\n}"},
		"a block after it":         {site: "handle /rpc* {\nBRIDGE\n}\nhandle {\nrespond 404\n}", options: "rpc"},
		"a route in order":         {site: "route {\nBRIDGE\nrespond 404\n}"},
		"an SPA":                   {site: "root * /www\ntry_files {path} /index.html\nfile_server", rewritten: all, by: "[try_files]"},
		"an SPA with a query":      {site: "root * /www\ntry_files {path} {path}/ /index.php?{query}", rewritten: all, by: "[try_files]"},
		"try_files with an error":  {site: "try_files {path} =404\nfile_server", rewritten: all, by: "[try_files]"},
		"try_files, no fallback":   {site: "try_files {path} {path}.html\nfile_server"},
		"an SPA for the rest":      {site: "@spa {\nnot path /rpc /a2a /a2a/* /mcp /.well-known/*\nfile {path} /index.html\n}\nrewrite @spa {file_match.relative}\nfile_server", options: "rpc"},
		"rewrite without a file":   {site: "@none not file\nrewrite @none /index.html\nfile_server", rewritten: all, by: "[rewrite]"},
		"maintenance":              {site: "@down file /down.html\nrewrite @down /down.html\nfile_server"},
		"an SPA in a block":        {site: "handle {\ntry_files {path} /index.html\nfile_server\n}\nhandle /rpc {\nBRIDGE\n}", options: "rpc"},
		"an SPA after it":          {site: "route {\nBRIDGE\ntry_files {path} /index.html\nfile_server\n}"},
		"an SPA and a prefix":      {site: "try_files {path} /index.html\nhandle_path /x/* {\nBRIDGE\n}", options: "rpc", rewritten: "[/rpc]", by: "[try_files]"},
		"rewrite":                  {site: "rewrite * /x", rewritten: all, by: "[rewrite]"},
		"rewrite of a path":        {site: "rewrite /mcp /x?y", rewritten: "[/mcp]", by: "[rewrite]"},
		"rewrite of a query":       {site: "rewrite * ?a=b"},
		"rewrite of another path":  {site: "rewrite /old /new"},
		"rewrite to a path of it":  {site: "rewrite * /rpc"},
		"rewrite with the path":    {site: "rewrite * /api{uri}", rewritten: all, by: "[rewrite]"},
		"path behind another":      {site: "rewrite /mcp /api{path}.json?{query}", rewritten: "[/mcp]", by: "[rewrite]"},
		"path that is stripped":    {site: "route {\nrewrite * /api{uri}\nhandle_path /api/* {\nBRIDGE\n}\n}", options: "rpc"},
		"stripped, and respond":    {site: "route {\nrespond /rpc 404\nrewrite * /api{uri}\nhandle_path /api/* {\nBRIDGE\n}\n}", options: "rpc\nmcp", hidden: "[/rpc]", by: "[respond]"},
		"the path as it is":        {site: "route {\nrewrite * {path}?a=b&{query}\nrespond /rpc 404\nBRIDGE\n}", options: "rpc\nmcp", hidden: "[/rpc]", by: "[respond]"},
		"a path for some":          {site: "@a header X-A b\nrewrite @a /api{uri}\nrespond /mcp 404", hidden: "[/mcp]", by: "[respond]"},
		"rewrite by environment":   {site: "rewrite * /x{env.NO_SUCH_VARIABLE}", rewritten: all, by: "[rewrite]"},
		"rewrite of a query, more": {site: "rewrite * ?a=b\nrespond 404", hidden: all, by: "[respond]"},
		"rewrite by a variable":    {site: "rewrite * {vars.x}\nrespond /mcp 404", hidden: "[/mcp]", by: "[respond]"},
		"rewrite before it":        {site: "route {\nrespond 404\nrewrite * {vars.x}\nBRIDGE\n}"},
		"variable for one path":    {site: "rewrite /mcp {vars.x}\nredir /rpc /x", hidden: "[/rpc]", by: "[redir]"},
		"rewrite of some":          {site: "@a header X-A b\nrewrite @a /x"},
		"rewrite of a host":        {site: "@a host other.example.com\nrewrite @a /x"},
		"rewrite by an expression": {site: "@a expression `path('/rpc')`\nrewrite @a /x"},
		"rewrite and back":         {site: "route {\nrewrite * /x\nrewrite /x /rpc\nBRIDGE\n}", options: "rpc"},
		"rewrite in a block":       {site: "route {\nrewrite * /x\n}", rewritten: all, by: "[rewrite]"},
		"rewrite of a method":      {site: "method GET"},
		"strip_prefix":             {site: "uri strip_prefix /rpc", rewritten: "[/rpc]", by: "[uri]"},
		"strip_prefix of others":   {site: "uri strip_prefix /api"},
		"strip_suffix":             {site: "uri strip_suffix /mcp", rewritten: "[/mcp]", by: "[uri]"},
		"strip_suffix of a slash":  {site: "uri strip_suffix /"},
		"replace":                  {site: "uri replace mcp tools", rewritten: "[/mcp]", by: "[uri]"},
		"path_regexp":              {site: "uri path_regexp ^/rpc /old", rewritten: "[/rpc]", by: "[uri]"},
		"handle_path of its path":  {site: "handle_path /rpc* {\nBRIDGE\n}", options: "rpc", rewritten: "[/rpc]", by: "[uri]"},
		"handle_path of a prefix":  {site: "handle_path /x/* {\nBRIDGE\n}", options: "rpc"},
		"rewrite before no mount":  {site: "rewrite * /x", options: " "},
		"several":                  {site: "redir /mcp /elsewhere\nrespond /rpc 200", hidden: "[/rpc /mcp]", by: "[respond redir]"},
	} {
		t.Run(about, func(t *testing.T) {
			options := c.options
			if options == "" {
				options = "rpc\na2a\nmcp"
			}
			bridge := "skill_bridge " + c.matcher + " {\n" + strings.TrimSpace(options) + "\nallow_anonymous\n}"
			site := strings.Replace(c.site, "BRIDGE", bridge, 1)
			if site == c.site {
				site += "\n" + bridge
			}
			c2 := testbed.StartCaddy(t, testbed.Site(site))
			defer c2.Stop()
			var by string
			for what, want := range map[string]string{"answers": c.hidden, "rewrites": c.rewritten} {
				var paths string
				for _, line := range c2.Log.Lines(`"level":"warn"`, "which "+what+" them") {
					var fields map[string]any
					if err := json.Unmarshal([]byte(line), &fields); err != nil {
						t.Fatal(err)
					}
					paths, by = paths+fmt.Sprint(fields["paths"]), by+fmt.Sprint(fields["handlers"])
				}
				if paths != want {
					t.Errorf("%s: %s, want %s", what, paths, want)
				}
			}
			if by != c.by {
				t.Errorf("by %s, want %s", by, c.by)
			}
			if lines := c2.Log.Lines(`"level":"warn"`, "let the matchers in front"); len(lines) > 0 {
				t.Errorf("another warning: %s", lines)
			}
		})
	}
}

// Names of skills in the options that can't mean a skill are errors; those that their source does not list are warnings.
func TestUnknownSkillsInOptions(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	const other = "provider http://127.0.0.1:9 {\nnamespace other\n}\n"
	for _, c := range []struct{ option, fault string }{
		{"default_skill acme.echo", ""},
		{"default_skill acme_echo", ""},
		{"default_skill acme.nope", ""},
		{"default_skill nope", "default_skill"},
		{"reply_message acme.echo nope.echo", "reply_message"},
	} {
		bridge := testbed.StartCaddy(t, inSite(p, alone, "rpc"))
		err := bridge.Reload(inSite(p, alone, "a2a {\n"+c.option+"\n}", other))
		if (err != nil) != (c.fault != "") || err != nil && (!strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), "acme, other")) {
			t.Errorf("%s: %v", c.option, err)
		}
		if err == nil {
			unknown := strings.HasSuffix(c.option, "nope")
			if unknown { // before any message
				testbed.Eventually(t, 15*time.Second, func() bool { return len(bridge.Log.Lines(`"level":"warn"`, `"default_skill":"acme.nope"`)) == 1 }, "a warning")
			}
			want := "TASK_STATE_COMPLETED"
			if unknown {
				want = "-32602"
			}
			(&visit{"POST", "/a2a", sendNothing, 200, want}).check(t, bridge.Client, base(bridge))
			if unknown {
				testbed.Eventually(t, 15*time.Second, func() bool { return len(bridge.Log.Lines(`"level":"warn"`, `"default_skill":"acme.nope"`)) == 1 }, "a warning")
			} else if len(bridge.Log.Lines(`"level":"warn"`, `"default_skill"`)) > 0 {
				t.Errorf("%s: a warning", c.option)
			}
		}
		bridge.Stop()
	}
}
