package mcp

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// The files of each skill, which are resources.
const (
	resourceScheme = "skill://"
	fileSkill      = "SKILL.md"
	fileDescriptor = "descriptor.json"
)

// mediaTypes are the media types of the files.
var mediaTypes = map[string]string{fileSkill: "text/markdown", fileDescriptor: "application/json"}

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
		w.Open()
		w.Text("uri", resourceScheme+escape(e.Name)+"/"+fileSkill)
		w.Text("name", e.Tool+"/"+fileSkill)
		w.Text("title", safetext.Line(e.Title, wire.MaxQuoted))
		w.Text("description", safetext.Line(e.Description, wire.MaxDescription))
		w.Text("mimeType", mediaTypes[fileSkill])
		w.Close()
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
	w.OpenArray("resourceTemplates")
	w.Open()
	w.Text("uriTemplate", resourceScheme+"{name}/{file}")
	w.Text("name", "skill")
	w.Text("title", "Files of a skill")
	w.Text("description", fileSkill+" explains the skill of a name; "+fileDescriptor+" is what its provider has published.")
	w.Close()
	w.CloseArray()
	w.freshness(time.Now().Add(longestTTL), r.private())
	return w.end(), nil
}

// readResource answers resources/read.
func readResource(r *request) (jsontext.Value, *jsonrpc.Error) {
	uri, fault := r.text(wire.ParamURI)
	if fault != nil {
		return r.refuse(fault)
	}
	name, file, ok := parseResource(uri)
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
	content := safetext.Escape(string(d.Document), "\t\r\n") // the JSON keeps its meaning
	if file == fileSkill {
		page, err := skillPage(d)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "Internal error: the page of the skill can't be made"}
		}
		content = page
	}
	w := r.open(resultComplete)
	w.OpenArray("contents")
	w.Open()
	w.Text("uri", uri)
	w.Text("mimeType", mediaTypes[file])
	w.Text("text", content)
	w.Close()
	w.CloseArray()
	w.freshness(d.FreshUntil, r.private() || d.Hidden)
	return w.end(), nil
}

// parseResource returns the skill and the file that a URI means. The name is one segment of the path; nothing is resolved.
func parseResource(uri string) (name, file string, ok bool) {
	rest, ok := strings.CutPrefix(uri, resourceScheme)
	if !ok {
		return "", "", false
	}
	segment, file, ok := strings.Cut(rest, "/")
	if _, known := mediaTypes[file]; !ok || !known {
		return "", "", false
	}
	name, err := url.PathUnescape(segment)
	return name, file, err == nil && name != "" && escape(name) == segment // each file has one URI
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
		Name: "Tool", CallName: name, Arguments: "arguments", Inputs: "the tool's `inputSchema`", Example: w.Buf, Descriptor: fileDescriptor,
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
