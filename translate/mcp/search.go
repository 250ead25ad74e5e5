package mcp

import (
	"cmp"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

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
		w.Text("description", safetext.Line(e.Description, wire.MaxDescription))
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
	tool, err := r.tools().Define(r.ctx, cmp.Or(d.Tool(), d.Name), d.Name, d.Descriptor, d.OutputSchema())
	if err != nil {
		return nil, callerGone(r)
	}
	var w wire.Writer
	w.Tool(&tool)
	return structured(r, w.Buf, nil), nil
}

// callSkill answers the tool call_skill as a call of the tool of a skill.
func callSkill(r *request, arguments jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	name, problem := wire.TextArgument(arguments, "name", "that of a skill, as search_skills gives it")
	if problem != "" {
		return wrongArgument(r, "name", problem)
	}
	own := wire.Member(arguments, "arguments")
	if own != nil && own.Kind() != '{' {
		return wrongArgument(r, "arguments", "arguments must be an object.")
	}
	if argument, problem := wire.RepeatedInArguments(jsonrpc.Member{Value: own}); problem != "" {
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
