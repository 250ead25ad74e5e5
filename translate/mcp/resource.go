package mcp

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// listResources answers resources/list: the SKILL.md of each skill.
func listResources(r *request) (jsontext.Value, *jsonrpc.Error) {
	return r.listed("resources", cursorResources, translate.Query{}, func(w *result, e *catalog.Entry) error {
		w.SkillPage(e.Name, e.Tool, e.Title, e.Description)
		return nil
	})
}

// listTemplates answers resources/templates/list.
func listTemplates(r *request) (jsontext.Value, *jsonrpc.Error) {
	if r.Param("cursor").Value != nil {
		return nil, unknownCursor()
	}
	w := r.open(resultComplete)
	w.Raw("resourceTemplates", jsontext.Value(wire.ResourceTemplates))
	w.freshness(time.Now().Add(longestTTL), r.private())
	return w.end(), nil
}

// readResource answers resources/read.
func readResource(r *request) (jsontext.Value, *jsonrpc.Error) {
	uri, d, folder, file, fault := resource(r)
	if fault != nil {
		return nil, fault
	}
	if d.Files != nil && !r.Reserve(int64(d.Files.SizeOf(file))) { // before it is unpacked
		return nil, refusal(r, exchange.NoRoom(r.Request, run.PhaseDescriptor, "", run.ExecutedNo, false), "")
	}
	text, found := fileOf(d, folder, file)
	content := front.ContentOf(text)
	switch {
	case !found:
		return nil, noResource(r, uri)
	case d.Files != nil && !r.Reserve(int64(content.Size)):
		return nil, refusal(r, exchange.NoRoom(r.Request, run.PhaseDescriptor, "", run.ExecutedNo, false), "")
	}
	w := r.open(resultComplete)
	w.OpenArray("contents")
	w.Contents(uri, file, text, content)
	w.CloseArray()
	w.freshness(d.FreshUntil, r.private() || d.Hidden)
	return w.end(), nil
}

// resource returns the skill, its folder and the file in it that the URI in the params means. It reports the call.
func resource(r *request) (uri string, d *translate.Description, folder, file string, fault *jsonrpc.Error) {
	uri, fault = r.text("uri")
	name, file, ok := wire.ParseResource(uri)
	if fault == nil && !ok {
		fault = noResource(r, uri)
	}
	var e *catalog.Entry
	below := ""
	if fault == nil {
		e, below, fault = skillAt(r, name, file)
	}
	if fault != nil {
		_, fault = r.refuse(fault)
		return uri, nil, "", "", fault
	}
	folder = name
	if e != nil {
		name, folder, file = e.Name, skillName(e), below
	}
	d, failure := r.front.Bridge.Describe(r.ctx, translate.Call{Caller: r.caller, Name: name, Answer: r.Request})
	switch {
	case failure != nil && isUnknownTool(failure), failure == nil && d.Name != name:
		fault = noResource(r, uri)
	case failure != nil:
		fault = refusal(r, failure, "")
	}
	return uri, d, folder, file, fault
}

// fileOf returns a file of a skill in a folder, and whether there is one.
func fileOf(d *translate.Description, folder, file string) (text []byte, ok bool) {
	switch {
	case d.Files != nil:
		return d.Files.Get(file)
	case file == wire.FileDescriptor:
		return []byte(safetext.Escape(string(d.Document), "\t\r\n")), true // the JSON keeps its meaning
	case file == wire.FileSkill:
		page, err := skillPage(d, folder)
		return []byte(page), err == nil
	}
	return nil, false
}

// noResource returns the error for a URI that means nothing.
func noResource(r *request, uri string) *jsonrpc.Error {
	data := front.Object(func(w *front.Writer) {
		w.Text("uri", safetext.Line(uri, maxURI))
	})
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: data}
	if !r.modern && r.Method == methodReadResource {
		e.Code = codeLegacyNoResource
	}
	return e
}

// skillPage renders the SKILL.md of a skill in a folder for callers of its tool.
func skillPage(d *translate.Description, folder string) (string, error) {
	name := cmp.Or(d.Tool, d.Name)
	data := front.Object(func(w *front.Writer) {
		w.Text("name", name)
		w.Raw("arguments", front.SampleInputs(d.Descriptor.Inputs))
	})
	page, err := skillfile.Page(d, &skillfile.Words{
		Name: "Tool", CallName: name, Arguments: "arguments", Inputs: "the tool's `inputSchema`", Example: data, Descriptor: wire.FileDescriptor,
	})
	s := d.Descriptor
	head := skillfile.FrontMatter{
		Name: folder, Description: skillfile.Describe(s.Name, s.Description, s.Tags), Version: s.Version, Provider: s.Provider.Name, Source: d.Namespace,
	}
	return head.String() + "\n" + page, err
}

// maxFiles bounds the files of a skill that clients have to take (SEP-2640, Limits). Those of a site have at most 16 MiB, as there.
const maxFiles = 512

// listSkills answers skills/list: the skills as folders of files, with the digests of these (SEP-2640).
func listSkills(r *request) (jsontext.Value, *jsonrpc.Error) {
	return r.listed("skills", cursorSkills, translate.Query{Descriptors: PageSize}, func(w *result, e *catalog.Entry) error {
		d := &translate.Description{Name: e.Name, Tool: e.Tool, Namespace: e.Namespace, Descriptor: e.Descriptor, Document: e.Document(), Files: e.Files}
		entry, err := skillEntry(r.ctx, d, skillName(e))
		if entry != nil {
			w.Next()
			w.Buf = append(w.Buf, entry...)
		}
		return err
	})
}

// getSkill answers skills/get.
func getSkill(r *request) (jsontext.Value, *jsonrpc.Error) {
	uri, d, folder, _, fault := resource(r)
	switch {
	case fault != nil:
		return nil, fault
	case uri != wire.SkillURI(d.Namespace, folder, wire.FileSkill):
		return nil, noResource(r, uri)
	}
	entry, err := skillEntry(r.ctx, d, folder)
	switch {
	case err != nil:
		return nil, callerGone(r)
	case entry == nil:
		return nil, noResource(r, uri)
	}
	w := r.open(resultComplete)
	w.Raw("skill", entry)
	w.freshness(d.FreshUntil, r.private() || d.Hidden)
	return w.end(), nil
}

// skillAt returns the skill in whose folder a path of a namespace is, if the caller may see it, and the rest of the path; nil: there is none.
func skillAt(r *request, namespace, path string) (of *catalog.Entry, file string, fault *jsonrpc.Error) {
	folder, file, ok := strings.Cut(path, "/")
	if !ok {
		return nil, "", nil
	}
	listing := r.front.Bridge.List(r.ctx, translate.Query{Caller: front.Quiet(r.caller), Namespace: namespace})
	if failure := listing.Unread(); failure != nil {
		return nil, "", unreadable(r, &listing, failure)
	}
	for i := range listing.Skills {
		if of = &listing.Skills[i]; skillName(of) == folder {
			return of, file, nil
		}
	}
	return nil, "", nil
}

// skillName returns the name of a skill in its source in the Agent Skills format. It depends on no other skill, so that no new one takes it: a name that is
// not of the format has a hash.
func skillName(e *catalog.Entry) string {
	own := strings.TrimPrefix(e.Own(), e.Namespace+".")
	if plain := skillfile.PlainName(own); plain != own {
		return skillfile.HashedName(own, plain)
	}
	return own
}

// skillForm is the form of a skill in a list of the namespace and the folder, for callers of a tool.
type skillForm struct{ namespace, folder, tool string }

// skillEntry returns what lists say of a skill in a folder, which is kept with the descriptor; nil: the skill is not of the format, or has more files
// than clients have to take. The error is that of a context that has ended.
func skillEntry(ctx context.Context, d *translate.Description, folder string) (jsontext.Value, error) {
	return d.Descriptor.Rendering(ctx, skillForm{d.Namespace, folder, d.Tool}, func() jsontext.Value {
		main, _ := fileOf(d, folder, wire.FileSkill)
		document, _ := fileOf(d, folder, wire.FileDescriptor)
		front, infos := skillsite.FrontMatter(main), []skillsite.Info{skillsite.NewInfo(wire.FileSkill, main), skillsite.NewInfo(wire.FileDescriptor, document)}
		if d.Files != nil {
			infos = d.Files.Infos()
		}
		if len(infos) > maxFiles || jsonrpc.Text(jsonrpc.ValueOf(front, "name")) != folder {
			return nil
		}
		var w wire.Writer
		w.Open()
		w.Text("uri", wire.SkillURI(d.Namespace, folder, wire.FileSkill))
		w.Raw("frontmatter", front)
		w.OpenArray("resources")
		for _, of := range infos {
			w.Open()
			w.Text("uri", wire.SkillURI(d.Namespace, folder, of.Path))
			w.Text("digest", of.Digest)
			w.Integer("size", int64(of.Size))
			w.Close()
		}
		w.CloseArray()
		w.Close()
		return w.Buf
	})
}
