package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
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
	Keyed   bool    // there is a credential
	Private bool    // which is used for documents, too
	Denied  *Denied // knows what was not sent; may be nil
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
		return p.fail(ctx, listing.Unavailable[0].Failure, start, asJSON)
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
func (p *Provider) fail(ctx context.Context, f *run.Failure, start time.Time, asJSON bool) int {
	status := ProtocolError
	if ctx.Err() != nil {
		fmt.Fprintln(p.Screen.Err, "interrupted")
		status = Interrupted
	} else {
		f = late(f, time.Since(start))
		p.explain(f, p.next(f))
	}
	if asJSON {
		p.Screen.JSON(failedOutcome{newWholeError(f, f.Next())})
	}
	return status
}

// late says of a timeout how long was waited: what the bridge says is about a
// timeout of agents, which is another than the command's.
func late(f *run.Failure, waited time.Duration) *run.Failure {
	if !isLate(f) {
		return f
	}
	e := *f // which may be shared
	e.Message = fmt.Sprintf("The provider had not accepted the run after %s.", seconds(waited))
	switch {
	case isDocument(&e):
		e.Message = unread(waited)
	case e.ExecutionID != "":
		e.Message = fmt.Sprintf("The run had not ended after %s.", seconds(waited))
	}
	e.Timeout, e.Cause = waited, errWaited
	return &e
}

// errWaited is the cause of failures for want of the time that the command has.
var errWaited = errors.New("time was up")

// detailsOf are the details of a failure for machines.
func detailsOf(f *run.Failure) jsontext.Value {
	if errors.Is(f.Cause, errWaited) {
		return fmt.Appendf(nil, `{"waited_ms":%d}`, f.Timeout.Milliseconds())
	}
	return skillsprotocol.Details(f)
}

// isLate reports a failure for want of time, which the bridge itself has measured.
func isLate(f *run.Failure) bool {
	return f != nil && f.Kind == run.DeadlineExceeded && f.By == run.Bridge
}

func unread(waited time.Duration) string {
	return fmt.Sprintf("The provider's documents could not be read within %s.", seconds(waited))
}

// command is a further command about the provider, to be copied into a shell.
func (p *Provider) command(name string, args ...string) string {
	words := append([]string{p.Command, "skill-bridge", name}, p.Flags...)
	args = append([]string{p.URL}, args...)
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		words = append(words, "--")
	}
	return ShellCommand(append(words, args...)...)
}

// ShellCommand is a command to be copied into a shell.
func ShellCommand(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
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
		return p.fail(ctx, failure, start, asJSON)
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
