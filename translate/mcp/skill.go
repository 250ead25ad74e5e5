package mcp

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

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
