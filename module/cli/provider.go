package cli

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Provider is a provider as a command sees it.
type Provider struct {
	Bridge *translate.Bridge // with one provider
	Screen *Screen
	URL    string // as it was written
	// Command is how this program is called, and Flags what it needs to reach the
	// provider: of both, further commands are made.
	Command string
	Flags   []string
	Keyed   bool // there is a credential
}

// listedSkill is a skill in a list for machines.
type listedSkill struct {
	Name           string                      `json:"name"`
	Version        string                      `json:"version"`
	Access         skillsharing.AccessPolicy   `json:"access"`
	CapabilityType skillsharing.CapabilityType `json:"capability_type"`
	Description    string                      `json:"description"`
}

// List shows the provider's skills.
func (p *Provider) List(ctx context.Context, asJSON bool) int {
	start := time.Now()
	listing := p.Bridge.List(ctx, translate.Query{})
	if len(listing.Unavailable) > 0 {
		return p.fail(ctx, listing.Unavailable[0].Failure, start)
	}
	skills := make([]listedSkill, len(listing.Skills))
	rows := make([][]string, len(listing.Skills))
	for i, e := range listing.Skills {
		skills[i] = listedSkill{e.Name, e.Version, e.Access, e.CapabilityType, e.Description}
		rows[i] = []string{e.Name, e.Version, string(e.Access), string(e.CapabilityType), e.Description}
	}
	if asJSON {
		p.Screen.JSON(struct {
			Skills []listedSkill `json:"skills"`
		}{skills})
		return OK
	}
	p.Screen.Table("", []string{"NAME", "VERSION", "ACCESS", "TYPE", "DESCRIPTION"}, rows)
	return OK
}

// fail tells of a failure, and what to do about it.
func (p *Provider) fail(ctx context.Context, f *translate.Failure, start time.Time) int {
	if ctx.Err() != nil {
		fmt.Fprintln(p.Screen.Err, "interrupted")
		return Interrupted
	}
	p.explain(late(f, time.Since(start)))
	return ProtocolError
}

// late says of a timeout how long was waited: what the bridge says is about a
// timeout of agents, which is another than the command's.
func late(f *translate.Failure, waited time.Duration) *translate.Failure {
	if f == nil || f.Kind != translate.TimedOut || f.Err.Source != skillsharing.SourceBridge {
		return f
	}
	told, e := *f, *f.Err // which may be shared
	e.Message = fmt.Sprintf("The provider had not accepted the run after %s.", seconds(waited))
	switch {
	case e.Phase == skillsharing.PhaseDiscovery || e.Phase == skillsharing.PhaseDescriptor:
		e.Message = unread(waited)
	case e.ExecutionID != "":
		e.Message = fmt.Sprintf("The run had not ended after %s.", seconds(waited))
	}
	e.Details, told.Err = fmt.Appendf(nil, `{"waited_ms":%d}`, waited.Milliseconds()), &e
	return &told
}

func unread(waited time.Duration) string {
	return fmt.Sprintf("The provider's documents could not be read within %s.", seconds(waited))
}

func (p *Provider) explain(f *translate.Failure) {
	e := f.Err
	p.Screen.Complain("%s", e.Message)
	about := string(e.Code)
	if e.HTTPStatus != 0 {
		about += fmt.Sprintf(", HTTP %d", e.HTTPStatus)
	}
	fmt.Fprintf(p.Screen.Err, "       (%s, phase %s, executed: %s)\n", printable(about), e.Phase, e.Executed)
	if e.Hint == skillsharing.HintDocument {
		fmt.Fprint(p.Screen.Err, faultLines(Faults(e)))
	}
	if next := p.next(f); next != "" {
		p.Screen.Advise(next)
	}
}

// next says what to do about a failure, in words of the command line.
func (p *Provider) next(f *translate.Failure) string {
	e := f.Err
	if f.Kind == translate.AuthRequired {
		return p.credentialAdvice(e)
	}
	if e.Hint == skillsharing.HintRefused {
		return widening(e)
	}
	switch f.Next {
	case translate.NextFixParams:
		if f.Kind == translate.SkillNotFound {
			return "see which skills there are: " + p.command("list")
		}
		return "see what the skill takes: " + p.command("describe", e.SkillID)
	case translate.NextFollowRun:
		if e.ExecutionID != "" {
			return "the run exists, do not start another; follow it: " + p.command("follow", e.SkillID, e.ExecutionID)
		}
	case translate.NextRetry:
		if strings.Contains(e.Message, "documents could not be read within") {
			return "try again later: nothing was executed. No flag makes it wait longer for documents, since the bridge does not, either"
		}
		return "try again later: nothing was executed"
	case translate.NextOtherSkill:
		return "this skill can't be used until its provider has mended it"
	}
	if e.Executed == skillsharing.ExecutedMaybe {
		return "it is not known whether the skill was executed; think before you try again"
	}
	return ""
}

// Unreadable says why a document could not be read, and what would help.
func Unreadable(e *skillsharing.Error, waited time.Duration) (message, next string) {
	switch {
	case e.Code == skillsharing.InvocationTimeout:
		return unread(waited), ""
	case e.Hint == skillsharing.HintRefused:
		next = widening(e)
	}
	return e.Message, next
}

// widening names the flag that would permit what was refused.
func widening(e *skillsharing.Error) string {
	refused, err := url.Parse(e.URL)
	if err != nil {
		refused = new(url.URL)
	}
	switch {
	case strings.Contains(e.Message, "without TLS"):
		return "if that is meant, add --allow-http"
	case strings.Contains(e.Message, "not public"):
		return "if this address may be called, add --allow-networks " + network(refused)
	case strings.Contains(e.Message, "port ") && refused.Port() != "":
		return "if this port may be called, add --allow-ports " + refused.Port()
	}
	return ""
}

// network is the smallest one that has a host, as far as that can be told.
func network(u *url.URL) string {
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u.Hostname()
	}
	if u.Hostname() == "localhost" {
		return "127.0.0.1,::1"
	}
	return "<its network, such as 10.1.2.0/24>"
}

func (p *Provider) credentialAdvice(e *skillsharing.Error) string {
	var d struct {
		Type string `json:"required_auth_type"`
	}
	_ = json.Unmarshal(e.Details, &d) // then nothing is known of it
	switch {
	case d.Type != "" && d.Type != string(skillsharing.AuthAPIKey):
		return "this skill wants " + d.Type + ", for which a Caddyfile with `credentials` is needed"
	case !p.Keyed:
		return "name the environment variable that has the API key: --api-key-env NAME (with --private if documents need it, too)"
	default:
		return "check the key and --api-key-header; a further host that may receive the key is named with --trust"
	}
}

// command is a further command about the provider, to be copied into a shell.
func (p *Provider) command(name string, args ...string) string {
	words := append([]string{p.Command, "skill-bridge", name}, p.Flags...)
	args = append([]string{p.URL}, args...)
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		words = append(words, "--")
	}
	words = append(words, args...)
	for i := range words {
		words[i] = quote(words[i])
	}
	return strings.Join(words, " ")
}

// quote makes one word of a text for a POSIX shell. Ids are the provider's.
func quote(word string) string {
	harmless := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r)
	}
	if word != "" && strings.TrimFunc(word, harmless) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Describe shows what is known of a skill.
func (p *Provider) Describe(ctx context.Context, skill string, asJSON bool) int {
	start := time.Now()
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill})
	if failure != nil {
		return p.fail(ctx, failure, start)
	}
	if asJSON {
		p.Screen.JSON(struct {
			Descriptor  jsontext.Value `json:"descriptor"`
			InputSchema jsontext.Value `json:"input_schema"`
		}{d.Document, d.InputSchema})
		return OK
	}
	p.show(d)
	return OK
}

func (p *Provider) show(d *translate.Description) {
	s, skill := p.Screen, d.Descriptor
	say := func(format string, args ...any) {
		fmt.Fprintln(s.Out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	say("%s %s (%s, %s)", printable(skill.ID), printable(skill.Version), skill.CapabilityType, skill.Access)
	say("%s", printable(skill.Name+": "+skill.Description))
	say("By %s", printable(skill.Provider.Name+" "+skill.Provider.URL))
	if skill.DocumentationURL != "" {
		say("See %s", printable(skill.DocumentationURL))
	}

	say("\nInputs:")
	rows := make([][]string, 0, len(skill.Inputs))
	var example []string
	for i := range skill.Inputs {
		input := &skill.Inputs[i]
		required, standard := "no", "-"
		if input.Required {
			required = "yes"
			example = append(example, input.Name+"=…")
		}
		if input.Default != nil {
			standard = string(input.Default)
		}
		rows = append(rows, []string{input.Name, strings.Join(types(input), "|"), required, standard, input.Description})
	}
	if len(rows) == 0 {
		say("  none")
	} else {
		s.Table("  ", []string{"NAME", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}, rows)
	}

	output := skill.Output.ContentType
	if skill.Output.Description != "" {
		output += ": " + skill.Output.Description
	}
	say("\nOutput:\n  %s", printable(output))
	say("\nAuthentication:\n  %s", printable(authentication(&skill.Auth)))
	say("\nCall it:\n  %s", escaped(p.command("call", append([]string{d.Name}, example...)...), ""))
}

// authentication says what a skill wants.
func authentication(a *skillsharing.Auth) string {
	var text string
	switch {
	case a.Type == skillsharing.AuthNone:
		return "none"
	case a.Type == skillsharing.AuthAPIKey:
		text = "an API key in the header " + a.Header + " (--api-key-env NAME)"
		if a.Header == "" {
			text = "an API key (--api-key-env NAME)"
		}
	case a.OAuth2 != nil:
		text = "OAuth 2.0, token endpoint " + a.OAuth2.TokenURL
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
	return text
}
