package wire

import (
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// The names of the built-in tools, which are no skills.
const (
	GetRun        = "get_run"
	SearchSkills  = "search_skills"
	DescribeSkill = "describe_skill"
	CallSkill     = "call_skill"
)

// The bounds of limit, the argument of search_skills.
const (
	SearchLimit    = 10 // the default
	MaxSearchLimit = 50
)

// GetRunTool is the definition of get_run.
const GetRunTool = `{"name":"` + front.GetRun + `","title":"Follow a run","description":"` + front.GetRunDescription + `","inputSchema":` + front.GetRunSchema +
	`,"annotations":{"readOnlyHint":true,"openWorldHint":true}}`

// SearchTools are the definitions of the tools with which a model finds and calls skills that are not listed, in the order of their
// names, with that of get_run.
const SearchTools = `{"name":"call_skill","title":"Call a skill","description":"Runs a skill and answers with its output. Call describe_skill first to ` +
	`learn its arguments.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The name, as search_skills gives it."},` +
	`"arguments":{"type":"object","description":"The arguments, as the inputSchema of describe_skill says."}},"required":["name"]},` +
	`"annotations":{"openWorldHint":true}},` +
	`{"name":"describe_skill","title":"Describe a skill","description":"Answers with the description of a skill and the schemas of its arguments and output.",` +
	`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The name, as search_skills gives it."}},"required":["name"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":true}},` + GetRunTool + `,` +
	`{"name":"search_skills","title":"Search skills","description":"Finds skills by the words of a task, best first. Search before you say that ` +
	`something can't be done.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"A few words: what is to be done, and with what."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"How many skills to return at most; 10 if it is not given."}},"required":["query"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":true}}`

// TextArgument returns an argument of a built-in tool that is a text; problem says why it is none.
func TextArgument(arguments jsontext.Value, name, about string) (value, problem string) {
	v := Member(arguments, name)
	switch value = Text(v); {
	case v == nil:
		return "", name + " is required: " + about + "."
	case value == "":
		return "", name + " must be a text: " + about + "."
	}
	return value, ""
}

// NumberArgument returns an argument of a built-in tool that is a whole number of at least least, or standard if it is absent.
func NumberArgument(arguments jsontext.Value, name string, least, standard uint64) (n uint64, problem string) {
	v := Member(arguments, name)
	if v == nil {
		return standard, ""
	}
	f, err := strconv.ParseFloat(string(v), 64) // 1000.0 is a whole number, too
	if v.Kind() != '0' || f < float64(least) || f != math.Trunc(f) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, name + " must be a whole number of " + strconv.FormatUint(least, 10) + " or more."
	}
	return uint64(min(f, math.MaxInt32)), ""
}
