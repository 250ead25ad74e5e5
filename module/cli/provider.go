package cli

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Provider is the provider of a command.
type Provider struct {
	Bridge *translate.Bridge // with one provider
	Screen *Screen
	URL    string // as the user wrote it
	// Command is the name of this program, and Flags are the flags that it needs to reach the
	// provider. The commands in advice contain both.
	Command string
	Flags   []string
	Keyed   bool    // there is an API key
	Private bool    // requests for documents carry it, too
	Denied  *Denied // may be nil
}

// List writes the provider's skills and returns the exit status.
func (p *Provider) List(ctx context.Context) int {
	start := time.Now()
	listing := p.Bridge.List(ctx, translate.Query{})
	if len(listing.Unavailable) > 0 {
		return p.fail(ctx, listing.Unavailable[0].Failure, start)
	}
	type skill struct {
		Name           string                  `json:"name"`
		Version        string                  `json:"version"`
		Access         document.AccessPolicy   `json:"access"`
		CapabilityType document.CapabilityType `json:"capability_type"`
		Description    string                  `json:"description"`
	}
	skills := make([]skill, len(listing.Skills))
	rows := make([][]string, len(listing.Skills))
	for i, e := range listing.Skills {
		skills[i] = skill{e.Name, e.Version, e.Access, e.CapabilityType, e.Description}
		rows[i] = []string{e.Name, e.Version, string(e.Access), string(e.CapabilityType), e.Description}
	}
	if p.Screen.AsJSON {
		p.Screen.JSON(map[string][]skill{"skills": skills})
	} else {
		p.Screen.Table("", []string{"NAME", "VERSION", "ACCESS", "TYPE", "DESCRIPTION"}, rows)
	}
	return OK
}

// Describe writes the descriptor of a skill and returns the exit status.
func (p *Provider) Describe(ctx context.Context, skill string) int {
	start := time.Now()
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill})
	if failure != nil {
		return p.fail(ctx, failure, start)
	}
	if p.Screen.AsJSON {
		p.Screen.JSON(struct {
			Descriptor  jsontext.Value `json:"descriptor"`
			InputSchema jsontext.Value `json:"input_schema"`
		}{d.Document, d.InputSchema})
	} else {
		p.show(d)
	}
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
	rows := make([][]string, len(skill.Inputs))
	call := []string{d.Name}
	for i := range skill.Inputs {
		input := &skill.Inputs[i]
		required, standard := "no", "-"
		if input.Required {
			required = "yes"
			call = append(call, input.Name+"=…")
		}
		if input.Default != nil {
			standard = string(input.Default)
		}
		rows[i] = []string{input.Name, strings.Join(types(input), "|"), required, standard, input.Description}
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
	say("\nCall it:\n  %s", safetext.Escape(p.command("call", call...), ""))
}

// authentication describes the authentication that a skill needs.
func authentication(a *document.Auth) string {
	var text string
	switch {
	case a.Type == document.AuthNone:
		return "none"
	case a.Type == document.AuthAPIKey && a.Header == "":
		text = "an API key (--api-key-env NAME)"
	case a.Type == document.AuthAPIKey:
		text = "an API key in the header " + a.Header + " (--api-key-env NAME)"
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

// fail writes a failure and the advice about it, and returns the exit status.
func (p *Provider) fail(ctx context.Context, f *run.Failure, start time.Time) int {
	status := ProtocolError
	if ctx.Err() != nil {
		status = p.Screen.Interrupted()
	} else {
		f = late(f, time.Since(start))
		p.explain(f, p.next(f))
	}
	p.failJSON(f, f.Next())
	return status
}

// Unreadable writes why a document could not be read and the advice about it, and returns
// the exit status.
func (p *Provider) Unreadable(f *run.Failure, waited time.Duration) int {
	f = late(f, waited)
	p.Screen.Complain("%s", f.Message)
	p.showURL(f)
	p.Screen.Advise(p.unreadAdvice(f))
	p.failJSON(f, "")
	return ProtocolError
}

func (p *Provider) failJSON(f *run.Failure, next run.Next) {
	if p.Screen.AsJSON {
		p.Screen.JSON(failedOutcome{newWholeError(f, next)})
	}
}

// command returns a command about the provider, quoted for a shell.
func (p *Provider) command(name string, args ...string) string {
	words := append([]string{p.Command, "skill-bridge", name}, p.Flags...)
	args = append([]string{p.URL}, args...)
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
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
