package mcp

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// listResources answers resources/list: the SKILL.md of each skill.
func listResources(r *request) (jsontext.Value, *jsonrpc.Error) {
	listing, fault := r.page(cursorResources, translate.Query{})
	if fault != nil {
		return nil, fault
	}
	w := r.open(resultComplete)
	w.OpenArray("resources")
	for i := range listing.Skills {
		e := &listing.Skills[i]
		w.SkillPage(e.Name, e.Tool, e.Title, e.Description)
	}
	w.CloseArray()
	return w.endPage(cursorResources, listing), nil
}

// listTemplates answers resources/templates/list.
func listTemplates(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.params[wire.ParamCursor].Value != nil {
		return nil, unknownCursor()
	}
	w := r.open(resultComplete)
	w.ResourceTemplates()
	w.freshness(time.Now().Add(longestTTL), r.private())
	return w.end(), nil
}

// readResource answers resources/read.
func readResource(r *request) (jsontext.Value, *jsonrpc.Error) {
	uri, fault := r.text(wire.ParamURI)
	if fault != nil {
		return r.refuse(fault)
	}
	name, file, ok := wire.ParseResource(uri)
	if !ok {
		return r.refuse(noResource(r, uri))
	}
	d, failure := r.front.Bridge.Describe(r.ctx, translate.Call{Caller: r.caller, Name: name, Answer: r.Request})
	switch {
	case failure != nil && isUnknownTool(failure), failure == nil && d.Name != name:
		return nil, noResource(r, uri)
	case failure != nil:
		return nil, refusal(r, failure, "")
	}
	if d.Files != nil && !r.Reserve(int64(d.Files.SizeOf(file))) { // before it is unpacked
		return nil, refusal(r, exchange.NoRoom(r.Request, run.PhaseDescriptor, "", run.ExecutedNo, false), "")
	}
	text, found := fileOf(d, file)
	content := front.ContentOf(text)
	switch {
	case !found:
		return nil, noResource(r, uri)
	case d.Files != nil && !r.Reserve(int64(content.Size)):
		return nil, refusal(r, exchange.NoRoom(r.Request, run.PhaseDescriptor, "", run.ExecutedNo, false), "")
	}
	w := r.open(resultComplete)
	w.OpenArray("contents")
	w.Contents(uri, file, text, content)
	w.CloseArray()
	w.freshness(d.FreshUntil, r.private() || d.Hidden)
	return w.end(), nil
}

// fileOf returns a file of a skill, and whether there is one.
func fileOf(d *translate.Description, file string) (text []byte, ok bool) {
	switch {
	case d.Files != nil:
		return d.Files.Get(file)
	case file == wire.FileDescriptor:
		return []byte(safetext.Escape(string(d.Document), "\t\r\n")), true // the JSON keeps its meaning
	case file == wire.FileSkill:
		page, err := skillPage(d)
		return []byte(page), err == nil
	}
	return nil, false
}

// noResource returns the error for a URI that means nothing.
func noResource(r *request, uri string) *jsonrpc.Error {
	var w front.Writer
	w.Open()
	w.Text("uri", safetext.Line(uri, maxURI))
	w.Close()
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: w.Buf}
	if !r.modern {
		e.Code = codeLegacyNoResource
	}
	return e
}

// skillPage renders the SKILL.md of a skill for callers of its tool.
func skillPage(d *translate.Description) (string, error) {
	name := cmp.Or(d.Tool(), d.Name)
	var w front.Writer
	w.Open()
	w.Text("name", name)
	w.Raw("arguments", front.SampleInputs(d.Descriptor.Inputs))
	w.Close()
	return skillfile.Page(d, &skillfile.Words{
		Name: "Tool", CallName: name, Arguments: "arguments", Inputs: "the tool's `inputSchema`", Example: w.Buf, Descriptor: wire.FileDescriptor,
	})
}

// refusal returns the error for a failure in a method whose results have no isError. token is that of the run; empty: there is none.
func refusal(r *request, f *run.Failure, token string) *jsonrpc.Error {
	if fault := unauthenticated(r, f); fault != nil {
		return fault
	}
	return failureError(f, token)
}

// failureError returns the error for a failure that has nothing to do with the caller. token is that of the run; empty: there is none.
func failureError(f *run.Failure, token string) *jsonrpc.Error {
	text, next := messageOf(f), f.Next()
	var w front.Writer
	w.Open()
	w.Text("code", errorCode(f))
	w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
	w.Text("next", string(next))
	w.Raw("details", front.Details(f))
	if token != "" && next == run.NextFollowRun {
		text += wire.Advice(f, next, token)
	} else {
		w.Raw("retry", front.Retry(f))
	}
	w.Optional("runToken", token)
	w.Close()
	jsonrpc.Flatten(w.Buf)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: w.Buf}
}
