package mcp

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// result writes the result of a request.
type result struct {
	wire.Writer
	request *request
}

// open begins a result of a type, which only modern clients read.
func (r *request) open(resultType string) *result {
	w := &result{wire.Writer{Writer: front.Writer{Buf: r.ResultBuffer(0)}}, r}
	w.Open()
	if r.modern {
		w.Text("resultType", resultType)
	}
	return w
}

// The types of results.
const (
	resultComplete = "complete"
	resultTask     = "task"

	resultInputRequired = "input_required"
)

// end ends a result with its _meta. own are members of the _meta. The result is one line, though values of providers may have more.
func (w *result) end(own ...func(*front.Writer)) jsontext.Value {
	if w.request.modern || len(own) > 0 {
		w.OpenMember("_meta")
		if w.request.modern {
			w.Name(wire.MetaServerInfo)
			w.serverInfo()
		}
		for _, add := range own {
			add(&w.Writer.Writer)
		}
		w.Close()
	}
	w.Close()
	jsonrpc.Flatten(w.Buf)
	return w.Buf
}

// serverInfo adds the name and version of the server as a value.
func (w *result) serverInfo() {
	o := &w.request.front.Options
	w.Open()
	w.Text("name", o.Name)
	w.Text("version", o.Version)
	w.Close()
}

// freshness adds how long clients may cache a modern result, and for whom. until is zero while a source can't be read.
func (w *result) freshness(until time.Time, private bool) {
	if !w.request.modern {
		return
	}
	ttl, scope := unreadableTTL, "public"
	if !until.IsZero() {
		ttl = min(max(time.Until(until), 0), longestTTL)
	}
	w.Integer("ttlMs", ttl.Milliseconds())
	if private {
		scope = "private"
	}
	w.Text("cacheScope", scope)
}

// Bounds of ttlMs.
const (
	longestTTL    = 5 * time.Minute
	unreadableTTL = 5 * time.Second // while a source can't be read
)

// capabilities adds what the server can do.
func (w *result) capabilities() {
	o, changes, extensions := &w.request.front.Options, "", `"`+wire.ExtensionSkills+`":{}`
	if w.request.modern && !o.Search {
		changes = `"listChanged":true`
	}
	if w.request.modern && o.TaskAfter >= 0 {
		extensions += `,"` + wire.ExtensionTasks + `":{}`
	}
	w.Raw("capabilities", jsontext.Value(`{"tools":{`+changes+`},"resources":{},"prompts":{},"completions":{},"extensions":{`+extensions+`}}`))
}

// discover answers server/discover.
func discover(r *request) (jsontext.Value, *jsonrpc.Error) {
	w := r.open(resultComplete)
	w.Texts("supportedVersions", r.front.Options.Versions)
	w.capabilities()
	w.Optional("instructions", r.front.Options.Instructions)
	w.freshness(time.Now().Add(longestTTL), r.private())
	return w.end(), nil
}

// private reports whether lists depend on the principal.
func (r *request) private() bool { return r.front.RequirePrincipal || r.front.Options.Private }

// initialize answers initialize.
func initialize(r *request) (jsontext.Value, *jsonrpc.Error) {
	version, fault := r.text("protocolVersion")
	if fault != nil {
		return nil, fault
	}
	if isModern(version) || !r.front.Options.serves(version) {
		if version = r.front.Options.newestLegacy(); version == "" {
			return nil, r.unsupportedVersion(jsonrpc.Text(r.Param("protocolVersion").Value))
		}
	}
	w := r.open(resultComplete)
	w.Text("protocolVersion", version)
	w.capabilities()
	w.Name("serverInfo")
	w.serverInfo()
	w.Optional("instructions", r.front.Options.Instructions)
	return w.end(), nil
}

// ping answers ping.
func ping(*request) (jsontext.Value, *jsonrpc.Error) { return jsontext.Value("{}"), nil }
