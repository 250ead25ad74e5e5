package mcp

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// PageSize is the number of tools of a page.
const PageSize = 100

// listTools answers tools/list.
func listTools(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.front.Options.Search {
		return listSearchTools(r)
	}
	of := translate.Query{Descriptors: PageSize, Reserved: wire.GetRun, Executable: true}
	return r.listed("tools", cursorTools, of, func(w *result, e *catalog.Entry) error {
		return w.Tool(r.ctx, r.tools(), e.Tool, e.Name, e.Descriptor, e.OutputSchema(), e.Connects)
	})
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
	if r.Param("cursor").Value != nil {
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

// listed answers a list with what a function writes of each skill of a page. If the page reserves a place for it, get_run is among them.
func (r *request) listed(member, list string, of translate.Query, write func(*result, *catalog.Entry) error) (jsontext.Value, *jsonrpc.Error) {
	listing, fault := r.page(list, of)
	if fault != nil {
		return nil, fault
	}
	w := r.open(resultComplete)
	w.OpenArray(member)
	getRun := listing.Reserved
	for i := range listing.Skills {
		e := &listing.Skills[i]
		if getRun && e.Tool > wire.GetRun {
			w.getRun()
			getRun = false
		}
		if err := write(w, e); err != nil {
			return nil, callerGone(r)
		}
		if !r.Reserve(int64(len(w.Buf))) {
			return nil, tooLarge(r.Request, nil)
		}
	}
	if getRun {
		w.getRun()
	}
	w.CloseArray()
	return w.endPage(list, listing), nil
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
	data := front.Object(func(w *front.Writer) {
		w.Text("code", errorCode(f))
		w.Text("executed", string(run.ExecutedNo))
	})
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Data: data,
		Message: "No source of skills can be read at the moment: " + messageOf(f),
	}
}

// The lists that have cursors.
const (
	cursorTools     = "t"
	cursorResources = "r"
	cursorPrompts   = "p"
	cursorSkills    = "s"
)

func unknownCursor() *jsonrpc.Error {
	return invalid("cursor is none of this server; begin with the first page")
}

// cursor returns the name after which the page of a list begins; empty: it is the first page.
func (r *request) cursor(list string) (after string, fault *jsonrpc.Error) {
	if r.Param("cursor").Value == nil {
		return "", nil
	}
	said, fault := r.text("cursor")
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

// searchSkills answers the tool search_skills.
func searchSkills(r *request, arguments jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	query, problem := wire.TextArgument(arguments, "query", "a few words of the task")
	if problem != "" {
		return wrongArgument(r, "query", problem)
	}
	limit, problem := wire.NumberArgument(arguments, "limit", 1, wire.SearchLimit)
	if problem != "" {
		return wrongArgument(r, "limit", problem)
	}
	limit = min(limit, wire.MaxSearchLimit)
	found := r.front.Bridge.Search(r.ctx, translate.Query{Caller: r.caller, Executable: true}, query, int(limit))
	if failure := found.Unread(); failure != nil {
		if fault := unreadable(r, &found, failure); fault.Status == http.StatusUnauthorized {
			return nil, fault
		}
		return explain(r, failure, ""), nil
	}
	var w wire.Writer
	w.Open()
	w.OpenArray("skills")
	for i := range found.Skills {
		e := &found.Skills[i]
		w.Open()
		w.Text("name", cmp.Or(e.Tool, e.Name))
		w.Text("title", safetext.Line(e.Title, wire.MaxQuoted))
		w.Text("description", front.DescriptionLine(e.Description, wire.MaxDescription, e.Connects))
		w.Text("capabilityType", string(e.CapabilityType))
		w.Close()
	}
	w.CloseArray()
	w.Close()
	return structured(r, w.Buf, &found), nil
}

// describeSkill answers the tool describe_skill with what tools/list says of a skill.
func describeSkill(r *request, arguments jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	name, problem := wire.TextArgument(arguments, "name", "that of a skill, as search_skills gives it")
	if problem != "" {
		return wrongArgument(r, "name", problem)
	}
	r.indirect = true
	d, failure := r.front.Bridge.Describe(r.ctx, translate.Call{Caller: r.caller, Name: name, Answer: indirect{r.Request}})
	if failure != nil {
		return failed(r, &run.Run{Failure: failure}, name)
	}
	var w wire.Writer
	if err := w.Tool(r.ctx, r.tools(), cmp.Or(d.Tool, d.Name), d.Name, d.Descriptor, d.OutputSchema, d.State == catalog.NeedsConsent); err != nil {
		return nil, callerGone(r)
	}
	return structured(r, w.Buf, nil), nil
}

// callSkill answers the tool call_skill as a call of the tool of a skill.
func callSkill(r *request, arguments jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	name, problem := wire.TextArgument(arguments, "name", "that of a skill, as search_skills gives it")
	if problem != "" {
		return wrongArgument(r, "name", problem)
	}
	own := jsonrpc.ValueOf(arguments, "arguments")
	if own != nil && own.Kind() != '{' {
		return wrongArgument(r, "arguments", "arguments must be an object.")
	}
	if argument, problem := wire.RepeatedInArguments(own); problem != "" {
		return wrongArgument(r, argument, problem)
	}
	r.indirect = true
	return start(r, translate.Call{Name: name, Inputs: jsonrpc.Object{Text: own}, Answer: indirect{r.Request}})
}

// indirect is the budget of a call whose skill is an argument of a built-in tool. [Code] knows these calls by it.
type indirect struct{ exchange.AnswerBudget }

// structured returns a result with an object, also as a text. l names the sources that could not be read; nil: all could.
func structured(r *request, object jsontext.Value, l *translate.Listing) jsontext.Value {
	w := r.open(resultComplete)
	w.Raw("structuredContent", object)
	w.OpenArray("content")
	w.TextContent(string(object))
	w.CloseArray()
	if l == nil {
		return w.end()
	}
	return w.end(unavailable(l)...)
}

// builtIns are the tools of the bridge's own: the one that follows a run, and those with which a model finds and calls skills.
var builtIns = map[string]func(*request, jsontext.Value) (jsontext.Value, *jsonrpc.Error){
	wire.GetRun: getRun, wire.SearchSkills: searchSkills, wire.DescribeSkill: describeSkill, wire.CallSkill: callSkill,
}

// builtIn returns the function of a tool of the bridge's own; nil: it is no such tool.
func (o *Options) builtIn(name string) func(*request, jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	if name == wire.GetRun || o.Search {
		return builtIns[name]
	}
	return nil
}

// getRun answers the tool get_run.
func getRun(r *request, arguments jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	token, problem := wire.TextArgument(arguments, "run_token", "the text that an earlier answer gave")
	if problem != "" {
		return wrongArgument(r, "run_token", problem)
	}
	wait := *r.wait()
	ms, problem := wire.NumberArgument(arguments, "wait_ms", 0, uint64(wait.Milliseconds())) //nolint:gosec // waits are positive
	if problem != "" {
		return wrongArgument(r, "wait_ms", problem)
	}
	wait = min(wait, time.Duration(ms)*time.Millisecond) //nolint:gosec // it has 31 bits, or is that of wait
	ref, err := r.front.Tokens.Open(r.ctx, token, r.caller.Principal)
	if errors.Is(err, runtoken.ErrInvalid) {
		return wrongArgument(r, "run_token", "run_token is not valid: it has expired, was changed, or was made for another caller or by another server.")
	}
	if err != nil {
		return r.refuse(tokensUnavailable())
	}
	execution := r.front.Bridge.Resume(r.ctx, ref, translate.Call{Caller: r.caller, Answer: r.Request, Wait: &wait})
	return r.await(execution, ref.SkillID)
}

// wrongArgument answers a call of a built-in tool with a wrong argument.
func wrongArgument(r *request, name, problem string) (jsontext.Value, *jsonrpc.Error) {
	failure := run.WrongArgument(run.Argument{Field: run.FieldInput, Name: name, Reason: run.WrongType}, problem)
	r.report(failure)
	return explain(r, failure, ""), nil
}
