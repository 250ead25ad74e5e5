package cli

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
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
	// Credentials is the flag of the credentials: --api-key-env or --oauth-client-id; empty: there are none.
	Credentials string
	Private     bool    // requests for documents carry them, too
	Denied      *Denied // may be nil
}

// List implements [Skills].
func (p *Provider) List(ctx context.Context, o ListOptions) int {
	start := time.Now()
	q := translate.Query{Usable: o.Usable}
	if o.Usable || o.States {
		q.Descriptors = math.MaxInt
	}
	var listing translate.Listing
	if o.Query != "" {
		listing = p.Bridge.Search(ctx, q, o.Query, maxFound)
	} else {
		listing = p.Bridge.List(ctx, q)
	}
	if len(listing.Unavailable) > 0 && len(listing.Skills) == 0 {
		return p.Fail(ctx, listing.Unavailable[0].Failure, start)
	}
	skills := make([]listedSkill, 0, len(listing.Skills))
	for i := range listing.Skills {
		e := &listing.Skills[i]
		if o.Usable && !e.Usable(ctx, "") {
			continue
		}
		skill := listedSkill{
			Name: e.Name, ToolName: e.ToolName(ctx, ""), Version: e.Version, Access: e.Access, CapabilityType: e.CapabilityType, Description: e.Description,
		}
		if q.Descriptors > 0 {
			status := e.Status(ctx, "")
			skill.State, _ = status.State()
		}
		skills = append(skills, skill)
	}
	if p.Screen.AsJSON {
		p.Screen.JSON(map[string][]listedSkill{"skills": skills})
	} else {
		p.Screen.skills(skills, q.Descriptors > 0)
	}
	return OK
}

// maxFound is how many skills a search in the skills of a provider finds at most.
const maxFound = 1000

// Describe implements [Skills].
func (p *Provider) Describe(ctx context.Context, skill string) int {
	start := time.Now()
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill})
	if failure != nil {
		return p.Fail(ctx, failure, start)
	}
	if d.Files != nil {
		main, _ := d.Files.Get(skillsite.Main)
		if p.Screen.AsJSON {
			p.Screen.JSON(struct {
				Descriptor jsontext.Value `json:"descriptor"`
				Files      []string       `json:"files"`
				Content    string         `json:"content"`
			}{d.Document, d.Files.Paths(), string(main)})
			return OK
		}
		p.Screen.instructions(d.Descriptor, d.Files.Paths(), string(main))
		return OK
	}
	if p.Screen.AsJSON {
		p.Screen.JSON(struct {
			Descriptor  jsontext.Value `json:"descriptor"`
			InputSchema jsontext.Value `json:"input_schema"`
		}{d.Document, inputs.InputSchema(d.Descriptor.Inputs)})
		return OK
	}
	p.Screen.describe(d.Descriptor, d.Tool(), string(d.State), false, func(args ...string) string {
		return p.command("call", append([]string{d.Name}, args...)...)
	})
	return OK
}

// Fail writes a failure and the advice about it, and returns the exit status.
func (p *Provider) Fail(ctx context.Context, f *run.Failure, start time.Time) int {
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
	p.Screen.Complain("%s", f.OperatorMessage())
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
