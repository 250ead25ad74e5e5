package skillsprotocol

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

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
	// maxRead bounds a page for which descriptors are read: a short request costs as many of the provider's documents.
	maxRead = 250
)

// The values of detail. Its default depends on the method.
const (
	detailNames    = "names"
	detailSummary  = "summary"
	detailTools    = "tools"
	detailManifest = "manifest"
	detailFull     = "full"
)

// kindAction is the kind of skills that can be executed, as all skills of a bridge.
const kindAction = "action"

// listQuery is what list_skills is asked for.
type listQuery struct {
	translate.Query
	words  string // of a search; empty: all skills
	detail string
	format string // of tools
}

// listQueryOf reads the params of list_skills.
func listQueryOf(ctx context.Context, p *params) listQuery {
	q := listQuery{
		words:  strings.TrimSpace(p.text(paramQuery)),
		detail: p.oneOf(paramDetail, detailNames, detailSummary, detailTools),
		format: p.oneOf(paramFormat, toolFormats...),
		Query: translate.Query{
			Caller: callerFor(ctx, p.request.Method), Namespace: p.text(paramNamespace), CapabilityType: typeOf(p), Usable: p.boolean(paramUsable),
			Limit: p.integer(paramLimit, 1, maxLimit, defaultLimit), ByName: true, AfterName: p.cursor(),
		},
	}
	most := maxRead
	if q.detail == detailTools && q.format == FormatOpenAI {
		most = maxOpenAITools
	}
	if q.hasGetRun() {
		most--
	}
	if q.detail == detailTools && q.words == "" && p.value(paramLimit) == nil {
		q.Limit = most // so that one call gets the tools of most bridges
	}
	if q.words != "" && q.AfterName != "" {
		p.reject(paramCursor, reasonInvalid, "must be left out with 'query': a search has one page, of 'limit' skills")
	}
	if q.detail != detailTools && p.value(paramFormat) != nil {
		p.reject(paramFormat, reasonInvalid, "is for 'detail': 'tools' only")
	}
	q.Executable, q.Connectable = q.detail == detailTools, !q.Usable // a model that is not shown a skill never gives the user the link
	if q.Usable = q.Usable || q.detail == detailTools; q.Usable {
		q.Limit = min(q.Limit, most)
		q.Descriptors = q.Limit
	}
	return q
}

// hasGetRun reports whether the tool get_run is on the page: it is on the first one.
func (q *listQuery) hasGetRun() bool { return q.detail == detailTools && q.AfterName == "" }

// listSkills answers list_skills with one page of skills, in the byte order of their names, or with the results of a search, best
// first.
func (f *Front) listSkills(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	q := listQueryOf(ctx, p)
	if p.failure != nil {
		return nil, p.refusal()
	}
	var listing translate.Listing
	if q.words != "" {
		listing = f.bridge(p).Search(ctx, q.Query, q.words, q.Limit)
	} else {
		listing = f.bridge(p).List(ctx, q.Query)
	}
	size := 128
	for i := range listing.Skills {
		size += q.sizeOf(&listing.Skills[i])
	}
	if !p.request.Reserve(int64(size)) {
		return nil, tooLarge(p.request, nil)
	}
	b := builder{front.Writer{Buf: make([]byte, 0, size)}}
	b.Open()
	if q.detail == detailTools {
		b.OpenArray("tools")
		for i := range listing.Skills {
			if err := b.tool(ctx, &listing.Skills[i], q.format); err != nil {
				return nil, callerGone(ctx)
			}
		}
		if q.hasGetRun() && (len(listing.Skills) > 0 || listing.NextAfter != "") {
			addGetRunTool(&b.Writer, q.format)
		}
	} else {
		b.OpenArray("skills")
		for i := range listing.Skills {
			b.entry(ctx, &listing.Skills[i], q.detail)
		}
	}
	b.CloseArray()
	if listing.NextAfter != "" {
		b.Text("next_cursor", cursorAfter(listing.NextAfter))
	} else {
		b.Raw("next_cursor", jsontext.Value("null"))
	}
	if len(listing.Unavailable) > 0 {
		b.unavailable(listing.Unavailable)
	}
	if q.Namespace != "" {
		p.hinted = b.unknownNamespace(q.Namespace, f.Bridge.Namespaces(q.Principal))
	}
	switch none := len(listing.Skills) == 0 && listing.NextAfter == "" && !p.hinted; {
	case none && q.words != "":
		p.advice = noWords
	case none && q.Usable:
		p.advice = leftOut
	}
	b.Close()
	return b.Buf, nil
}

// The hints of a search that finds nothing, and of an empty list of usable skills.
const (
	noWords = "no skill has words like these in its name, title, description or tags (with 'usable' or 'detail': 'tools', no skill that can be called): use other words, or leave out 'query' to list all skills"
	leftOut = "skills that can't be called are left out: without 'usable' and 'detail': 'tools', the list has them, with their 'state'; those that are 'readable' are instructions, which read_skill_file returns"
)

// sizeOf returns about how many bytes a skill takes in the answer, at least.
func (q *listQuery) sizeOf(e *catalog.Entry) int {
	if q.detail == detailTools && e.Descriptor != nil {
		return toolSize(e.Descriptor)
	}
	return 288 + 2*len(e.Name) + min(len(e.Description), 4*maxMessage)
}

// maxNamespaces bounds the namespaces in the hint about an unknown one.
const maxNamespaces = 20

// unknownNamespace adds a hint if no source has the namespace, and reports whether it has done so. This is not an error: the
// namespace is a filter, and a filter may match nothing.
func (b *builder) unknownNamespace(namespace string, all []string) bool {
	if slices.Contains(all, namespace) {
		return false
	}
	others, candidates := "the namespaces are '"+strings.Join(all, "', '")+"'", all
	if len(all) > maxNamespaces {
		others, candidates = methodGuide+" names the namespaces", nil
	}
	b.OpenMember("hint")
	b.argument(&run.Argument{Field: run.FieldOther, Name: paramNamespace, Reason: run.NotFound, Candidates: candidates})
	b.Text("message", "no source has the namespace '"+safetext.Line(namespace, maxName)+"'; "+others)
	b.Close()
	return true
}

// tool adds the definition of a skill as a tool. A skill without a tool name has none. The error is that of a context that has ended.
func (b *builder) tool(ctx context.Context, e *catalog.Entry, format string) error {
	if name := e.ToolName(ctx, translate.RequestOf(ctx).Principal); name != "" && e.Descriptor != nil {
		return addTool(ctx, &b.Writer, name, e.Descriptor, e.Connects, format)
	}
	return nil
}

func (b *builder) entry(ctx context.Context, e *catalog.Entry, detail string) {
	b.Open()
	b.Text("name", e.Name)
	b.Optional("tool_name", e.ToolName(ctx, translate.RequestOf(ctx).Principal))
	b.Text("version", e.Version)
	b.Text("description", safetext.Line(e.Description, maxMessage))
	status := e.Status(ctx, translate.RequestOf(ctx).Principal)
	b.state(status.State())
	if detail == detailSummary {
		b.Text("namespace", e.Namespace)
		b.Text("kind", kindAction)
		b.Text("capability_type", string(e.CapabilityType))
		b.Text("access", string(e.Access))
	}
	b.Close()
}

// state adds what is known about calls of a skill.
func (b *builder) state(state catalog.State, since time.Time) {
	b.Text("state", string(state))
	if !since.IsZero() {
		b.Text("state_since", since.UTC().Format(time.RFC3339))
	}
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
