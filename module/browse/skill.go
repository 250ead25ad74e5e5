package browse

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Bounds of JSON and files on a page, in bytes.
const (
	maxShownSchema = 16 << 10  // of an input, or of the output
	maxShownTool   = 32 << 10  // of a definition of a tool
	maxShownFile   = 64 << 10  // of a SKILL.md
	maxSchemas     = 256 << 10 // of all inputs
)

// one makes the page of a single skill and returns its HTTP status.
func (m *pageMaker) one(ctx context.Context, name string) int {
	ctx, cancel := context.WithTimeout(ctx, m.limits.whole)
	defer cancel()
	m.page.Skill = plain(name, maxShownName)
	d, failure := m.bridge.Describe(ctx, translate.Call{Caller: run.Caller{Principal: m.principal}, Name: name})
	if failure != nil && (failure.Kind == run.SkillNotFound || failure.Kind == run.InvalidArguments) {
		m.page.Problem = m.reason(failure)
		return http.StatusNotFound
	}
	if failure != nil && failure.Next() == run.NextAuthenticate {
		m.page.Problem = m.reason(failure)
		return http.StatusForbidden
	}
	skill := Skill{Name: m.page.Skill}
	if d != nil { // also set if the skill was found but its descriptor can't be read
		skill.Name, skill.Namespace, skill.Since = plain(d.Name, maxShownName), groupOf(d.Name, d.Namespace), d.Since
	}
	if failure != nil {
		skill.State, skill.Reason = catalog.StateOf(nil, failure), m.reason(failure)
		if skill.State == catalog.Invalid {
			skill.Faults = faults(failure.Violations)
		}
		if d != nil && d.Entry != nil {
			indexed(&skill, d.Entry)
		}
	} else {
		m.describe(ctx, &skill, d)
	}
	skill.Ago = m.ago(skill.Since)
	m.page.Skills = 1
	m.page.Groups = []Group{{Namespace: skill.Namespace, Skills: []Skill{skill}, Total: 1}}
	if d != nil {
		m.connect(ctx, &m.page.Groups[0], d.Namespace)
	}
	return http.StatusOK
}

// indexed adds what the index says about a skill.
func indexed(s *Skill, e *catalog.Entry) {
	s.Title, s.Version, s.Description = plain(e.Title, maxShownName), plain(e.Version, maxShownName), plain(e.Description, maxShownText)
	s.CapabilityType, s.Access = plain(string(e.CapabilityType), maxShownName), plain(string(e.Access), maxShownName)
}

// describe adds the content of a descriptor.
func (m *pageMaker) describe(ctx context.Context, s *Skill, d *translate.Description) {
	v := d.Descriptor
	s.State, s.Since, s.Tool = cmp.Or(d.State, catalog.Available), d.Since, d.Tool
	if d.Denied != nil {
		s.Reason, s.Denied = m.reason(d.Denied), d.Denied.By != run.Provider
	}
	if h := d.Held; h != nil {
		s.Held = "The provider has changed this skill (" + strings.Join(h.Parts, ", ") + "), found on " + h.Since.UTC().Format("2 Jan 2006") +
			". The bridge uses the earlier descriptor, which is shown here, until its operator approves the change."
	}
	s.CapabilityType, s.Access = plain(string(v.CapabilityType), maxShownName), plain(string(v.Access), maxShownName)
	s.Title, s.Version, s.Description = plain(v.Name, maxShownName), plain(v.Version, maxShownName), plain(v.Description, maxShownText)
	shown := v.Inputs[:min(len(v.Inputs), maxShownInputs)]
	s.MoreInputs = len(v.Inputs) - len(shown)
	schemas := 0
	for i := range shown {
		in := inputOf(&shown[i])
		if schemas += len(in.Schema); schemas > maxSchemas {
			in.Schema = ""
		}
		s.Inputs = append(s.Inputs, in)
	}
	s.Descriptor, s.Schema, s.Tags = v, indented(front.CleanSchema(v.Output.Schema, ""), maxShownSchema), tags(v.Tags)
	if d.Files != nil {
		s.Reading, s.Code = readingOf(d.Files), m.readingCode(d)
		return
	}
	s.Code = m.code(ctx, d)
	s.A2A = m.agentOf(d)
}

// readingOf returns the text of a skill that is read, and names its further files.
func readingOf(files *skillsite.Files) string {
	main, _ := files.Get(skillsite.Main)
	text := strings.TrimSpace(strings.ReplaceAll(string(skillsite.Body(main)), "\r\n", "\n"))
	text = safetext.Escape(safetext.Clip(text, maxShownFile), "\t\n")
	others := files.Paths()[1:]
	for i, path := range others {
		switch i {
		case 0:
			text += "\n\nFurther files:"
		case maxShownList:
			return text + fmt.Sprintf("\nand %d more", len(others)-i)
		}
		text += "\n" + plain(path, maxShownName)
	}
	return cmp.Or(text, "SKILL.md is empty.")
}

// faults returns the errors in an invalid document.
func faults(found []run.Violation) []Fault {
	faults := make([]Fault, min(len(found), maxShownList))
	for i := range faults {
		faults[i] = Fault{plain(found[i].Path, maxShownText), plain(found[i].Message, maxShownText)}
	}
	return faults
}

// indented returns JSON for people, in which all characters are visible; empty: there is none, or it has more than limit bytes.
func indented(value jsontext.Value, limit int) string {
	if len(value) == 0 || len(value) > limit {
		return ""
	}
	text := value.Clone()
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil || len(text) > 4*limit {
		return ""
	}
	return safetext.Escape(string(text), "\n")
}

// inputOf returns an input, with what its schema says.
func inputOf(p *document.Parameter) Input {
	choices, rules := rulesOf(p.Schema)
	return Input{p, choices, rules, schemaOf(p)}
}

// schemaOf returns a JSON Schema of an object with one input, for the form. If the input's own schema is too long, it has only the type.
func schemaOf(p *document.Parameter) string {
	one := []document.Parameter{*p}
	if len(p.Schema)+len(p.Default) > maxShownSchema {
		one[0].Schema, one[0].Default = nil, nil
	}
	schema := inputs.InputSchema(one)
	if len(schema) > maxShownSchema {
		one[0].Schema, one[0].Default = nil, nil
		schema = inputs.InputSchema(one)
	}
	if len(schema) > maxShownSchema {
		return ""
	}
	return safetext.Escape(string(schema), "")
}

// scopesOf returns the first scopes of an authentication with OAuth 2.0.
func scopesOf(o *document.OAuth2) []string {
	scopes := slices.Sorted(maps.Keys(o.Scopes))
	return scopes[:min(len(scopes), maxShownList)]
}

// shownKeywords are the keywords of a schema that the page shows beside the allowed values (JSON Schema 2020-12, Validation).
var shownKeywords = []string{
	"const", "format", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems",
}

// rulesOf returns the allowed values of a schema, and its other keywords that the page shows. If it is invalid, those that were read so far are used.
func rulesOf(schema jsontext.Value) (choices []string, rules []Rule) {
	var keywords map[string]jsontext.Value
	var enum []jsontext.Value
	if schema.Kind() == '{' && len(schema) <= maxShownSchema {
		_ = json.Unmarshal(schema, &keywords)
		_ = json.Unmarshal(keywords["enum"], &enum)
	}
	for _, choice := range enum[:min(len(enum), maxShownList)] {
		choices = append(choices, plain(string(choice), maxShownName))
	}
	if len(enum) > maxShownList {
		choices = append(choices, "…")
	}
	for _, keyword := range shownKeywords {
		if value := plain(string(keywords[keyword]), maxShownName); value != "" {
			rules = append(rules, Rule{keyword, value})
		}
	}
	return choices, rules
}
