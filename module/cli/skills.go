package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// skills writes a table of skills.
func (s *Screen) skills(skills []listedSkill) {
	header := []string{"NAME", "TOOL", "VERSION", "ACCESS", "TYPE", "STATE", "DESCRIPTION"}
	rows := make([][]string, len(skills))
	for i, e := range skills {
		rows[i] = []string{e.Name, e.ToolName, e.Version, string(e.Access), string(e.CapabilityType), string(e.State), e.Description}
	}
	s.WholeTable("", len(header)-1, header, rows)
}

// describe writes what a descriptor says about a skill. command returns the command that calls it.
func (s *Screen) describe(skill *document.Descriptor, tool, state string, withBridge bool, command func(args ...string) string) {
	say := func(format string, args ...any) {
		fmt.Fprintln(s.Out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	say("%s %s (%s, %s)", printable(skill.ID), printable(skill.Version), skill.CapabilityType, skill.Access)
	say("%s", printable(skill.Name+": "+skill.Description))
	say("By %s", printable(skill.Provider.Name+" "+skill.Provider.URL))
	if skill.DocumentationURL != "" {
		say("See %s", printable(skill.DocumentationURL))
	}
	if tool != "" {
		say("Tool name: %s", printable(tool))
	}
	if state != "" {
		say("State: %s", printable(state))
	}

	say("\nInputs:")
	rows := make([][]string, len(skill.Inputs))
	var args []string
	for i := range skill.Inputs {
		input := &skill.Inputs[i]
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
		s.WholeTable("  ", 4, []string{"NAME", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}, rows)
	}

	output := skill.Output.ContentType
	if skill.Output.Description != "" {
		output += ": " + skill.Output.Description
	}
	say("\nOutput:\n  %s", printable(output))
	say("\nAuthentication:\n  %s", printable(authentication(&skill.Auth, withBridge)))
	say("\nCall it:\n  %s", safetext.Escape(command(args...), ""))
}

// instructions writes a skill that is read and not executed: the paths of its files, and its SKILL.md.
func (s *Screen) instructions(skill *document.Descriptor, files []string, main string) {
	fmt.Fprintln(s.Out, printable(fmt.Sprintf("%s %s (%s: it is read, not called)", skill.ID, skill.Version, skill.CapabilityType)))
	fmt.Fprintln(s.Out, printable("By "+skill.Provider.Name+" "+skill.Provider.URL))
	fmt.Fprintln(s.Out, "Files:", printable(strings.Join(files, ", ")))
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
