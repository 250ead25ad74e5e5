package skillsprotocol

import (
	"cmp"
	"context"
	_ "embed"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

//go:embed guide.md.tmpl
var guideText string

var guideTemplate = template.Must(template.New("guide").Parse(guideText))

// guide is the data for the template of the guide.
type guide struct {
	Namespaces   []skillfile.Markdown
	Codes        []guideCode
	Page, Limit  int
	Unsupported  skillfile.Markdown
	Failed, Late string // types of failed runs, if the provider sends none
	Lifetime     string // of run tokens and of what is kept of runs
}

// guideCode is a row of the guide's table of codes.
type guideCode struct {
	codeRow
	Name document.ErrorCode
}

// loadGuide answers load_skills_protocol_guide.
func (f *Front) loadGuide(ctx context.Context, _ *params) (jsontext.Value, *jsonrpc.Error) {
	g := guide{
		Page: defaultLimit, Limit: maxLimit,
		Unsupported: skillfile.CodeList(unsupported),
		Failed:      document.ExecutionFailed, Late: string(document.InvocationTimeout), Lifetime: inWords(f.Tokens.Lifetime()),
	}
	for _, n := range f.Bridge.Namespaces(translate.RequestOf(ctx).Principal) {
		if c := skillfile.Code(n); c != "" {
			g.Namespaces = append(g.Namespaces, c)
		}
	}
	for kind, row := range codes {
		switch k := run.Kind(kind); k {
		case run.RunFailed, run.NotSupported, run.Stopped, run.CallerGone, run.CallerCanceled: // their codes are in other rows
		default:
			g.Codes = append(g.Codes, guideCode{row, cmp.Or(nameOf(k), "none")})
		}
	}
	var text strings.Builder
	if err := guideTemplate.Execute(&text, &g); err != nil {
		return nil, internalError(err)
	}
	var b builder
	b.Open()
	b.Text("content", text.String())
	b.Close()
	return b.Buf, nil
}

// The OpenRPC document of the endpoint, with an empty version and the default lifetime of run tokens and of what is kept of runs.
//
//go:embed openrpc.json
var openRPC string

// discover answers rpc.discover, the service discovery method of OpenRPC.
func (f *Front) discover(context.Context, *params) (jsontext.Value, *jsonrpc.Error) {
	version := string(front.AppendText(nil, f.Version))
	document := jsontext.Value(strings.NewReplacer(`"version": ""`, `"version": `+version, "24 hours", inWords(f.Tokens.Lifetime())).Replace(openRPC))
	if err := document.Compact(); err != nil {
		return nil, internalError(err)
	}
	return document, nil
}
