package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Endpoint is the endpoint of the Skills Protocol at a running bridge, or at one in this process that has a provider.
type Endpoint struct {
	Screen *Screen
	URL    string // of the endpoint, or of the provider
	// Provider is what a bridge in this process tells beyond its answers; nil: it is elsewhere.
	Provider *Provider
	// Do sends a request with the credentials of the user.
	Do func(*http.Request) (*http.Response, error)
	// Command is the name of this program, and Flags are those that it needs to reach the bridge or the provider. The commands in advice contain both.
	Command string
	Flags   []string
	// Authorized says that requests carry credentials.
	Authorized bool
}

// listedSkill is a skill in a list, as JSON.
type listedSkill struct {
	Name           string                  `json:"name"`
	ToolName       string                  `json:"tool_name,omitzero"`
	Version        string                  `json:"version"`
	Access         document.AccessPolicy   `json:"access"`
	CapabilityType document.CapabilityType `json:"capability_type"`
	Description    string                  `json:"description"`
	State          catalog.State           `json:"state,omitzero"`
	StateSince     string                  `json:"state_since,omitzero"`
}

// unreadSource is a source of skills that the bridge could not read, as JSON.
type unreadSource struct {
	Namespace string `json:"namespace"`
	Code      string `json:"code"`
	Message   string `json:"message"`
}

// pageSize is the limit of a page of list_skills.
const pageSize = 250

// ListOptions select skills.
type ListOptions struct {
	// Query has words that the skills must have. The best skills come first. Empty: all skills.
	Query string
	// Usable leaves out the skills that can't be called, as far as is known.
	Usable bool
	// States reads the descriptors of a provider's skills, to show whether these can be called.
	States bool
}

// List lists the skills. Like the other commands about them, it writes a result and returns the exit status.
func (e *Endpoint) List(ctx context.Context, o ListOptions) int {
	if e.Provider != nil && (o.Usable || o.States) {
		e.Provider.ReadAll(ctx)
	}
	var all struct {
		Skills      []listedSkill  `json:"skills"`
		Unavailable []unreadSource `json:"unavailable,omitzero"`
	}
	all.Skills = []listedSkill{}
	params := struct {
		Detail string         `json:"detail"`
		Limit  int            `json:"limit"`
		Query  string         `json:"query,omitzero"`
		Usable bool           `json:"usable,omitzero"`
		Cursor jsontext.Value `json:"cursor,omitzero"`
	}{"summary", pageSize, o.Query, o.Usable, nil}
	for {
		var page struct {
			Skills      []listedSkill  `json:"skills"`
			NextCursor  jsontext.Value `json:"next_cursor"`
			Unavailable []unreadSource `json:"unavailable"`
		}
		if err := e.ask(ctx, 0, "list_skills", params, &page); err != nil {
			return e.fail(ctx, err)
		}
		all.Skills = append(all.Skills, page.Skills...)
		for _, u := range page.Unavailable {
			if !slices.ContainsFunc(all.Unavailable, func(known unreadSource) bool { return known.Namespace == u.Namespace }) {
				all.Unavailable = append(all.Unavailable, u)
			}
		}
		if page.NextCursor.Kind() != '"' || string(page.NextCursor) == string(params.Cursor) {
			break
		}
		params.Cursor = page.NextCursor
	}
	if e.Provider != nil && len(all.Skills) == 0 {
		if f := e.Provider.Unread(ctx); f != nil {
			return e.Fail(ctx, f)
		}
	}
	e.Screen.Show(all, func() { e.Screen.skills(all.Skills) })
	for _, u := range all.Unavailable {
		e.Screen.note(fmt.Sprintf("not listed: the skills of %s: %s: %s", printable(u.Namespace), printable(u.Code), printable(u.Message)))
	}
	if len(all.Skills) == 0 && len(all.Unavailable) > 0 {
		return ProtocolError
	}
	return OK
}

// IsCompletable reports whether shells may offer a name. Bash expands what it offers: a provider could have commands executed.
func IsCompletable(name string) bool {
	return !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/@+", r)
	})
}

// Names returns the names of skills that begin so, with their descriptions after a tab, for completion: as many as one page of a list has.
func (e *Endpoint) Names(ctx context.Context, begun string) (names []string) {
	var page struct {
		Skills []listedSkill `json:"skills"`
	}
	_ = e.ask(ctx, 0, "list_skills", map[string]any{"detail": "summary", "limit": pageSize}, &page) // without an answer, there are none
	for _, skill := range page.Skills {
		if strings.HasPrefix(skill.Name, begun) && IsCompletable(skill.Name) {
			names = append(names, skill.Name+"\t"+printable(skill.Description))
		}
	}
	return names
}

// Describe describes a skill.
func (e *Endpoint) Describe(ctx context.Context, skill string) int {
	var whole struct {
		Skill   jsontext.Value `json:"skill"`
		Content string         `json:"content,omitzero"` // of the SKILL.md of a skill that is read
	}
	if err := e.ask(ctx, 0, "describe_skill", map[string]any{"name": skill, "detail": "manifest"}, &whole); err != nil {
		return e.fail(ctx, err)
	}
	var described struct {
		Manifest manifest `json:"manifest"`
	}
	if err := json.Unmarshal(whole.Skill, &described); err != nil {
		return e.fail(ctx, e.refused(run.NextNone, run.ExecutedNo, "the answer of the bridge is not one of the Skills Protocol"))
	}
	m := &described.Manifest
	if len(m.Files) > 0 {
		if err := e.ask(ctx, 0, "read_skill_file", map[string]any{"name": m.Name, "path": skillsite.Main}, &whole); err != nil {
			return e.fail(ctx, err)
		}
	}
	switch {
	case e.Screen.AsJSON:
		e.Screen.JSON(whole)
	case len(m.Files) > 0:
		e.Screen.instructions(m, whole.Content)
	default:
		e.describe(m)
	}
	return OK
}

// manifest is a skill in the answer to describe_skill.
type manifest struct {
	Name           string                  `json:"name"`
	ToolName       string                  `json:"tool_name"`
	DisplayName    string                  `json:"display_name"`
	Version        string                  `json:"version"`
	Description    string                  `json:"description"`
	State          catalog.State           `json:"state"`
	Files          []string                `json:"files"` // of a skill that is read and not executed
	Access         document.AccessPolicy   `json:"access"`
	CapabilityType document.CapabilityType `json:"capability_type"`
	Documentation  string                  `json:"documentation_url"`
	Provider       document.Provider       `json:"provider"`
	Inputs         struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	} `json:"inputs"`
	Output document.Output `json:"output"`
	Auth   document.Auth   `json:"auth"`
	Timing struct {
		TimeoutMS float64 `json:"timeout_ms"`
	} `json:"timing"`
}

// inputs returns the inputs as a descriptor has them.
func (m *manifest) inputs() []document.Parameter {
	var list []document.Parameter
	for name, schema := range jsonrpc.Members(m.Inputs.Properties) {
		var about struct {
			Description string         `json:"description"`
			Default     jsontext.Value `json:"default"`
		}
		_ = json.Unmarshal(schema, &about) // a schema may be a boolean
		text := string(jsonrpc.Unquote(name))
		list = append(list, document.Parameter{
			Name: text, Description: about.Description, Default: about.Default, Schema: schema, Required: slices.Contains(m.Inputs.Required, text),
		})
	}
	return list
}

// Fail is fail for a failure of a bridge in this process.
func (e *Endpoint) Fail(ctx context.Context, f *run.Failure) int { return e.fail(ctx, refusalOf(f)) }

// fail writes why there is no result and the advice about it, and returns the exit status.
func (e *Endpoint) fail(ctx context.Context, err error) int {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		r = e.refused(run.NextNone, run.ExecutedMaybe, err.Error())
	}
	status := ProtocolError
	if ctx.Err() != nil {
		status = e.Screen.Interrupted()
	} else {
		e.explain(r, e.next(r))
	}
	if e.Screen.AsJSON {
		e.Screen.JSON(failedOutcome{&r.wholeError})
	}
	return status
}

// explain writes a refusal and advice about it.
func (e *Endpoint) explain(r *refusal, advice string) {
	s := e.Screen
	s.Complain("%s", r.Message)
	var about []string
	if r.Code != "" {
		about = append(about, string(r.Code))
	}
	if r.HTTPStatus != 0 {
		about = append(about, fmt.Sprintf("HTTP %d", r.HTTPStatus))
	}
	if r.Phase != "" {
		about = append(about, "phase "+string(r.Phase))
	}
	if r.Executed != "" {
		about = append(about, "executed: "+string(r.Executed))
	}
	if len(about) > 0 {
		s.note("       (" + printable(strings.Join(about, ", ")) + ")")
	}
	if r.URL != "" {
		s.note("       at " + printable(r.URL))
	}
	if f := r.failure; f != nil && f.Kind == run.InvalidDocument {
		fmt.Fprint(s.Err, faultLines(faultsOf(f)))
	}
	s.Advise(advice)
}

// next returns the advice about a refusal; empty: there is none. It does not advise a second call of a skill that may have been executed.
func (e *Endpoint) next(r *refusal) string {
	if r.failure != nil {
		if advice, known := e.operatorAdvice(r.failure); known {
			return advice
		}
	}
	switch {
	case r.Next == run.NextAuthenticate && e.Authorized:
		return "check the user name and the password, or the token, for the bridge"
	case r.Next == run.NextAuthenticate:
		return "authenticate to the bridge: with --bearer-env or --basic-env"
	case r.RunToken != "" && r.Next == run.NextFollowRun:
		return "the run exists, do not start another; follow it: " + e.command("follow", r.RunToken)
	case r.Next == run.NextFollowRun:
		return "the run exists, do not start another: ask the operator of the bridge how it ended"
	case r.Next == run.NextFixParams && r.Code == document.SkillNotFound:
		return "see which skills there are: " + e.command("list")
	case r.Reason == run.OnlyRead && r.SkillID != "":
		return "read the instructions: " + e.command("describe", r.SkillID)
	case r.Next == run.NextFixParams && r.SkillID != "":
		return "see what the skill takes: " + e.command("describe", r.SkillID)
	case r.Next == run.NextAskOperator:
		return "ask the operator of the bridge"
	case r.Next == run.NextOtherSkill:
		return "this skill can't be used until its provider corrects it; see the others: " + e.command("list", "--usable")
	case r.Next == run.NextRetry && r.URL != "":
		return "check the URL, or try again later: nothing was executed"
	case r.Next == run.NextRetry:
		return "try again later: nothing was executed"
	case r.Executed == run.ExecutedMaybe:
		return "the skill may have been executed: find out before you call it again, which may execute it twice"
	}
	return ""
}

// command returns a command about the bridge or the provider, quoted for a shell.
func (e *Endpoint) command(name string, args ...string) string {
	words := append([]string{e.Command, "skill-bridge", name}, e.Flags...)
	if e.Provider == nil {
		words = append(words, "--bridge", e.URL)
	} else {
		args = append([]string{e.URL}, args...)
	}
	if name != "list" && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		words = append(words, "--")
	}
	return ShellCommand(append(words, args...)...)
}

// ShellCommand returns a command, quoted for a shell.
func ShellCommand(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

var unquoted = regexp.MustCompile(`^[-\w./:@%+,=]+$`)

// quote quotes a word for a POSIX shell.
func quote(word string) string {
	if unquoted.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// skills writes a table of skills.
func (s *Screen) skills(skills []listedSkill) {
	header := []string{"NAME", "TOOL", "VERSION", "ACCESS", "TYPE", "STATE", "DESCRIPTION"}
	rows := make([][]string, len(skills))
	for i, e := range skills {
		rows[i] = []string{e.Name, e.ToolName, e.Version, string(e.Access), string(e.CapabilityType), string(e.State), e.Description}
	}
	s.Table("", len(header)-1, header, rows)
}

// describe writes what a manifest says about a skill, and the command that calls it.
func (e *Endpoint) describe(m *manifest) {
	s, inputs := e.Screen, m.inputs()
	say := func(format string, args ...any) {
		fmt.Fprintln(s.Out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	say("%s %s (%s, %s)", printable(m.Name), printable(m.Version), printable(string(m.CapabilityType)), printable(string(m.Access)))
	say("%s", printable(m.DisplayName+": "+m.Description))
	say("By %s", printable(m.Provider.Name+" "+m.Provider.URL))
	for _, more := range []struct{ what, text string }{{"See", m.Documentation}, {"Tool name:", m.ToolName}, {"State:", string(m.State)}} {
		if more.text != "" {
			say("%s %s", more.what, printable(more.text))
		}
	}

	say("\nInputs:")
	rows := make([][]string, len(inputs))
	args := []string{m.Name}
	for i := range inputs {
		input := &inputs[i]
		required, standard := "no", "-"
		if input.Required {
			required = "yes"
			args = append(args, input.Name+"=…")
		}
		if input.Default != nil {
			standard = string(input.Default)
		}
		rows[i] = []string{input.Name, strings.Join(types(input), "|"), required, standard, input.Description}
	}
	if len(rows) == 0 {
		say("  none")
	} else {
		s.Table("  ", 4, []string{"NAME", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}, rows)
	}

	output := m.Output.ContentType
	if m.Output.Description != "" {
		output += ": " + m.Output.Description
	}
	say("\nOutput:\n  %s", printable(output))
	say("\nAuthentication:\n  %s", printable(authentication(&m.Auth, e.Provider == nil)))
	say("\nCall it:\n  %s", safetext.Escape(e.command("call", args...), ""))
}

// instructions writes a skill that is read and not executed: the paths of its files, and its SKILL.md.
func (s *Screen) instructions(m *manifest, main string) {
	fmt.Fprintln(s.Out, printable(fmt.Sprintf("%s %s (%s: it is read, not called)", m.Name, m.Version, m.CapabilityType)))
	fmt.Fprintln(s.Out, printable("By "+m.Provider.Name+" "+m.Provider.URL))
	fmt.Fprintln(s.Out, "Files:", printable(strings.Join(m.Files, ", ")))
	fmt.Fprintln(s.Out, "\n"+safetext.Escape(strings.ReplaceAll(main, "\r\n", "\n"), "\t\n"))
}

// authentication describes the authentication that a skill needs. With a bridge, that is the bridge's business.
func authentication(a *document.Auth, withBridge bool) string {
	var text, flag, flags string
	if !withBridge {
		flag, flags = " (--api-key-env NAME)", " ("+oauthFlags+")"
	}
	switch {
	case a.Type == document.AuthNone:
		return "none"
	case a.Type == document.AuthAPIKey && a.Header == "":
		text = "an API key" + flag
	case a.Type == document.AuthAPIKey:
		text = "an API key in the header " + a.Header + flag
	case a.OAuth2 != nil:
		text = "OAuth 2.0" + flags + ", token endpoint " + a.OAuth2.TokenURL
		if len(a.OAuth2.Scopes) > 0 {
			text += ", scopes " + strings.Join(slices.Sorted(maps.Keys(a.OAuth2.Scopes)), " ")
		}
	case a.Custom != nil:
		text = "of its own: " + a.Custom.Instructions
	default:
		text = string(a.Type)
	}
	if a.Description != "" {
		text += ". " + a.Description
	}
	if withBridge {
		text = "the bridge has to send " + text
	}
	return text
}
