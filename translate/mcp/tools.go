package mcp

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// PageSize is the number of tools of a page.
const PageSize = 100

// listTools answers tools/list.
func listTools(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.front.Options.Search {
		return listSearchTools(r)
	}
	listing, fault := r.page(cursorTools, translate.Query{Descriptors: PageSize, Reserved: wire.GetRun, Executable: true})
	if fault != nil {
		return nil, fault
	}
	list := make([]wire.Definition, len(listing.Skills))
	size := 0
	for i := range listing.Skills {
		e := &listing.Skills[i]
		var err error
		if list[i], err = r.tools().Define(r.ctx, e.Tool, e.Name, e.Descriptor, e.OutputSchema()); err != nil {
			return nil, callerGone(r)
		}
		size += list[i].Size()
	}
	if !r.Reserve(int64(size)) {
		return nil, tooLarge(r.Request, nil)
	}
	w := r.open(resultComplete)
	w.Buf = slices.Grow(w.Buf, size)
	w.OpenArray("tools")
	getRun := listing.Reserved
	for i := range list {
		if getRun && listing.Skills[i].Tool > wire.GetRun {
			w.getRun()
			getRun = false
		}
		w.Tool(&list[i])
	}
	if getRun {
		w.getRun()
	}
	w.CloseArray()
	return w.endPage(cursorTools, listing), nil
}

// callerGone returns the error for a request whose context has ended: what it asks for is not made.
func callerGone(r *request) *jsonrpc.Error {
	return failureError(exchange.Interrupted(r.ctx, run.PhaseDescriptor, "", run.ExecutedNo), "")
}

// getRun adds the definition of get_run.
func (w *result) getRun() {
	w.Next()
	w.Buf = append(w.Buf, wire.GetRunTool...)
}

// listSearchTools answers tools/list if skills are searched. No source is asked.
func listSearchTools(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.params[wire.ParamCursor].Value != nil {
		return r.refuse(unknownCursor())
	}
	r.report(nil)
	w := r.open(resultComplete)
	w.Raw("tools", jsontext.Value("["+wire.SearchTools+"]"))
	w.freshness(time.Now().Add(longestTTL), r.private())
	return w.end(), nil
}

// page returns the page of a list of skills that the client asks for. It is reported as a call.
func (r *request) page(list string, of translate.Query) (*translate.Listing, *jsonrpc.Error) {
	after, fault := r.cursor(list)
	if fault != nil {
		_, fault = r.refuse(fault)
		return nil, fault
	}
	of.Caller, of.AfterTool, of.Limit = r.caller, after, PageSize
	listing := r.front.Bridge.List(r.ctx, of)
	if failure := listing.Unread(); failure != nil {
		return nil, unreadable(r, &listing, failure)
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

// unavailable adds the sources to _meta that could not be read, also those whose stale lists are used.
func unavailable(l *translate.Listing) []func(*front.Writer) {
	all := slices.Concat(l.Unavailable, l.Stale)
	if len(all) == 0 {
		return nil
	}
	return []func(*front.Writer){func(w *front.Writer) {
		w.OpenArray(wire.MetaUnavailable)
		for _, u := range all {
			w.Open()
			w.Text("namespace", u.Namespace)
			w.Text("code", errorCode(u.Failure))
			w.Text("message", messageOf(u.Failure))
			w.Close()
		}
		w.CloseArray()
	}}
}

// unreadable returns the error for a list if the list of no source can be read: an empty one would say that there are no tools.
func unreadable(r *request, l *translate.Listing, f *run.Failure) *jsonrpc.Error {
	for _, u := range l.Unavailable {
		if fault := unauthenticated(r, u.Failure); fault != nil {
			return fault
		}
	}
	var w front.Writer
	w.Open()
	w.Text("code", errorCode(f))
	w.Text("executed", string(run.ExecutedNo))
	w.Close()
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Data: w.Buf,
		Message: "No source of skills can be read at the moment: " + messageOf(f),
	}
}

// The lists that have cursors.
const (
	cursorTools     = "t"
	cursorResources = "r"
	cursorPrompts   = "p"
)

func unknownCursor() *jsonrpc.Error {
	return invalid("cursor is none of this server; begin with the first page")
}

// cursor returns the name after which the page of a list begins; empty: it is the first page.
func (r *request) cursor(list string) (after string, fault *jsonrpc.Error) {
	if r.params[wire.ParamCursor].Value == nil {
		return "", nil
	}
	said, fault := r.text(wire.ParamCursor)
	if fault != nil {
		return "", fault
	}
	after, ok := wire.ParseCursor(list, said)
	if !ok {
		return "", unknownCursor()
	}
	return after, nil
}

// tools says how tools are defined for the client.
func (r *request) tools() wire.Tools {
	return wire.Tools{Modern: r.modern, Structured: r.front.Options.Validate}
}
