package mcp

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// pageSize is the number of tools of a page.
const pageSize = 100

// listTools answers tools/list.
func listTools(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.front.Options.Search {
		return listSearchTools(r)
	}
	listing, fault := r.page(cursorTools, "", pageSize)
	if fault != nil {
		return nil, fault
	}
	w := r.open(resultComplete)
	w.OpenArray("tools")
	if r.params[paramCursor].Value == nil {
		w.Next()
		w.Buf = append(w.Buf, wire.GetRunTool...)
	}
	for i := range listing.Skills {
		e := &listing.Skills[i]
		w.Tool(&wire.Definition{Tool: e.Tool, Name: e.Name, Descriptor: e.Descriptor, Output: e.OutputSchema()}, r.tools())
	}
	w.CloseArray()
	if report := r.front.Long; report != nil && listing.NextAfter != "" {
		r.front.long.Do(func() { report(r.ctx) })
	}
	return w.endPage(cursorTools, listing), nil
}

// listSearchTools answers tools/list if skills are searched. No source is asked.
func listSearchTools(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.params[paramCursor].Value != nil {
		return r.refuse(invalid("cursor is none of this server; begin with the first page"))
	}
	r.report(nil)
	w := r.open(resultComplete)
	w.Raw("tools", jsontext.Value("["+wire.SearchTools+"]"))
	w.freshness(time.Now().Add(longestTTL), r.private())
	return w.end(), nil
}

// page returns a page of a list of skills, of one type or all, with as many descriptors. It is reported as a call.
func (r *request) page(list string, only document.CapabilityType, descriptors int) (*translate.Listing, *jsonrpc.Error) {
	after, fault := r.cursor(list)
	if fault != nil {
		_, fault = r.refuse(fault)
		return nil, fault
	}
	listing := r.front.Bridge.List(r.ctx, translate.Query{
		Caller: r.caller, AfterTool: after, Limit: pageSize, Descriptors: descriptors, CapabilityType: only,
	})
	if listing.Read == 0 && len(listing.Unavailable) > 0 {
		return nil, unreadable(&listing)
	}
	return &listing, nil
}

// endPage ends the result with a page of a list.
func (w *result) endPage(list string, l *translate.Listing) jsontext.Value {
	if l.NextAfter != "" {
		w.Text("nextCursor", wire.NewCursor(list, l.NextAfter))
	}
	w.freshness(l.FreshUntil, w.request.private() || l.Private)
	return w.end(unavailable(l)...)
}

// unavailable adds the sources to _meta that could not be read.
func unavailable(l *translate.Listing) []func(*front.Writer) {
	if len(l.Unavailable) == 0 {
		return nil
	}
	return []func(*front.Writer){func(w *front.Writer) {
		w.OpenArray(metaUnavailable)
		for _, u := range l.Unavailable {
			w.Open()
			w.Text("namespace", u.Namespace)
			w.Text("code", errorCode(u.Failure))
			w.Text("message", messageOf(u.Failure))
			w.Close()
		}
		w.CloseArray()
	}}
}

// unreadable returns the error for a list of which nothing can be read: an empty one would say that there are no tools.
func unreadable(l *translate.Listing) *jsonrpc.Error {
	var w front.Writer
	w.Open()
	w.Text("code", errorCode(l.Unavailable[0].Failure))
	w.Text("executed", string(run.ExecutedNo))
	w.Close()
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Data: w.Buf,
		Message: "No source of skills can be read at the moment: " + messageOf(l.Unavailable[0].Failure),
	}
}

// The lists that have cursors.
const (
	cursorTools     = "t"
	cursorResources = "r"
	cursorTemplates = "m"
	cursorPrompts   = "p"
)

// cursor returns the name after which the page of a list begins; empty: it is the first page.
func (r *request) cursor(list string) (after string, fault *jsonrpc.Error) {
	if r.params[paramCursor].Value == nil {
		return "", nil
	}
	said, fault := r.text(paramCursor)
	if fault != nil {
		return "", fault
	}
	after, ok := wire.ParseCursor(list, said)
	if !ok {
		return "", invalid("cursor is none of this server; begin with the first page")
	}
	return after, nil
}

// tools says how tools are defined for the client.
func (r *request) tools() wire.Tools {
	o := &r.front.Options
	return wire.Tools{Modern: r.modern, Structured: o.Validate, Headers: o.AllowHeaderParameters}
}
