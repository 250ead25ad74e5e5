package skillsprotocol

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// The sizes of a page of list_skills.
const (
	defaultLimit = 50
	maxLimit     = 1000
)

// The values of detail. Its default depends on the method.
const (
	detailNames    = "names"
	detailSummary  = "summary"
	detailManifest = "manifest"
	detailFull     = "full"
)

// kindAction is the kind of skills that can be executed, as all skills of a bridge.
const kindAction = "action"

// listSkills answers list_skills with one page of skills, in the byte order of their names.
func (f *Front) listSkills(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	namespace := p.text(paramNamespace)
	detail := p.oneOf(paramDetail, detailNames, detailSummary)
	limit := p.integer(paramLimit, 1, maxLimit, defaultLimit)
	after := p.cursor()
	if p.failure != nil {
		return nil, p.refusal()
	}
	listing := f.bridge(p).List(ctx, translate.Query{
		Caller:    callerFor(ctx, p.request.Method),
		Namespace: namespace,
	})
	page, more := pageAfter(listing.Skills, after, limit)

	size := 128
	for i := range page {
		size += 64 + len(page[i].Name)
		if detail == detailSummary {
			size += 128 + min(len(page[i].Description), 4*maxMessage)
		}
	}
	if !p.request.Reserve(int64(size)) {
		return nil, tooLarge(p.request, nil)
	}
	b := builder{front.Writer{Buf: make([]byte, 0, size)}}
	b.Open()
	b.OpenArray("skills")
	for i := range page {
		b.entry(&page[i], detail)
	}
	b.CloseArray()
	if more {
		b.Text("next_cursor", cursorAfter(page[len(page)-1].Name))
	} else {
		b.Raw("next_cursor", jsontext.Value("null"))
	}
	if len(listing.Unavailable) > 0 {
		b.unavailable(listing.Unavailable)
	}
	if namespace != "" {
		b.unknownNamespace(namespace, f.Bridge.Namespaces())
	}
	b.Close()
	return b.Buf, nil
}

// pageAfter returns the first skills after a name, at most limit, and whether there are
// more.
func pageAfter(skills []catalog.Entry, after string, limit int) (page []catalog.Entry, more bool) {
	start := 0
	if after != "" {
		at, found := slices.BinarySearchFunc(skills, after, func(e catalog.Entry, name string) int {
			return strings.Compare(e.Name, name)
		})
		start = at
		if found {
			start++
		}
	}
	rest := skills[start:]
	if len(rest) <= limit {
		return rest, false
	}
	return rest[:limit], true
}

// maxNamespaces bounds the namespaces in the hint about an unknown one.
const maxNamespaces = 20

// unknownNamespace adds a hint if no source has the namespace. This is not an error: the
// namespace is a filter, and a filter may match nothing.
func (b *builder) unknownNamespace(namespace string, all []string) {
	if slices.Contains(all, namespace) {
		return
	}
	others, candidates := "the namespaces are '"+strings.Join(all, "', '")+"'", all
	if len(all) > maxNamespaces {
		others, candidates = methodGuide+" names the namespaces", nil
	}
	b.OpenMember("hint")
	b.argument(&run.Argument{Field: run.FieldOther, Name: paramNames[paramNamespace], Reason: run.NotFound, Candidates: candidates})
	b.Text("message", "no source has the namespace '"+safetext.Line(namespace, maxName)+"'; "+others)
	b.Close()
}

func (b *builder) entry(e *catalog.Entry, detail string) {
	b.Open()
	b.Text("name", e.Name)
	b.Text("version", e.Version)
	b.Text("description", safetext.Line(e.Description, maxMessage))
	if detail == detailSummary {
		b.Text("namespace", e.Namespace)
		b.Text("kind", kindAction)
		b.Text("capability_type", string(e.CapabilityType))
		b.Text("access", string(e.Access))
	}
	b.Close()
}

// unavailable adds the sources that could not be read, so that an agent does not conclude
// that their skills do not exist.
func (b *builder) unavailable(sources []catalog.Unavailable) {
	b.OpenArray("unavailable")
	for _, u := range sources {
		kind, message := run.Internal, ""
		if u.Failure != nil {
			kind, message = u.Failure.Kind, u.Failure.Text()
		}
		b.Open()
		b.Text("namespace", u.Namespace)
		b.Text("code", string(cmp.Or(nameOf(kind), "INTERNAL_ERROR")))
		b.Text("message", messageOf(message, rowOf(kind).Meaning))
		b.Close()
	}
	b.CloseArray()
}
