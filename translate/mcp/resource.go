package mcp

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
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
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

// refusal returns the error for a failure in a method whose results have no isError. token is that of the run; empty: there is none.
func refusal(r *request, f *run.Failure, token string) *jsonrpc.Error {
	if fault := unauthenticated(r, f); fault != nil {
		return fault
	}
	return failureError(f, token)
}

// failureError returns the error for a failure that has nothing to do with the caller. token is that of the run; empty: there is none.
func failureError(f *run.Failure, token string) *jsonrpc.Error {
	text, next := messageOf(f), f.Next()
	if token != "" && next == run.NextFollowRun {
		text += wire.Advice(f, next, token)
	}
	data := front.Object(func(w *front.Writer) { facts(w, f, next, token) })
	jsonrpc.Flatten(data)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: data}
}

// listPrompts answers prompts/list: the skills of the type knowledge.
func listPrompts(r *request) (jsontext.Value, *jsonrpc.Error) {
	of := translate.Query{CapabilityType: document.Knowledge, Descriptors: PageSize}
	return r.listed("prompts", cursorPrompts, of, func(w *result, e *catalog.Entry) error {
		return w.Prompt(r.ctx, e.Tool, e.Descriptor, e.Connects)
	})
}

// promptInputs makes the inputs of a skill of the texts that a client sends for its prompt.
type promptInputs struct{ texts jsontext.Value }

// Inputs implements [translate.Preparation].
func (p promptInputs) Inputs(_ context.Context, s *translate.Skill) (jsonrpc.Object, *run.Failure) {
	if s.Descriptor.CapabilityType != document.Knowledge {
		return jsonrpc.Object{}, argumentFailure(run.FieldSkill, s.Name, "is no prompt: its tool can be called")
	}
	inputs, argument, problem := wire.PromptInputs(p.texts, s.Descriptor.Inputs)
	if problem != "" {
		return jsonrpc.Object{}, argumentFailure(run.FieldInput, argument, problem)
	}
	return jsonrpc.Object{Text: inputs}, nil
}

// Invoke implements [translate.Preparation].
func (promptInputs) Invoke(context.Context, *translate.Skill) *run.Failure { return nil }

func argumentFailure(field run.Field, name, problem string) *run.Failure {
	name = safetext.Line(name, wire.MaxQuoted)
	return run.WrongArgument(run.Argument{Field: field, Name: name, Reason: run.NotFound}, name+" "+problem)
}

// getPrompt answers prompts/get: it runs the skill, and each part of its output is a message.
func getPrompt(r *request) (jsontext.Value, *jsonrpc.Error) {
	name, fault := r.text("name")
	if fault != nil {
		return r.refuse(fault)
	}
	arguments := r.Param("arguments").Value
	if arguments != nil && arguments.Kind() != '{' {
		return r.refuse(invalid("arguments must be an object"))
	}
	if _, problem := wire.RepeatedArgument(arguments); problem != "" {
		return r.refuse(invalid(problem))
	}
	wait := r.front.Options.Wait
	execution := r.front.Bridge.Start(r.ctx, translate.Call{
		Caller: r.caller, Answer: r.Request, Name: name, Patient: true, Wait: &wait, Checks: &translate.RequestOf(r.ctx).Checks,
		Priority: r.meta.Priority, Prepare: promptInputs{arguments},
	})
	outcome := execution.Wait()
	switch f := outcome.Failure; {
	case f != nil && f.Argument != nil && f.Argument.Reason == run.OnlyRead:
		outcome.Output = front.AppendText(nil, string(execution.Skill().Main()))
	case f != nil && isUnknownTool(f):
		return nil, invalid("unknown prompt " + quoted(name))
	case f != nil && f.Kind == run.InvalidArguments && f.By == run.Bridge:
		return nil, invalid(messageOf(f))
	case f != nil:
		return nil, refusal(r, f, r.tokenOf(&outcome))
	case !outcome.State.Ended():
		text, add := runningOn(r.tokenOf(&outcome))
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: front.Object(add)}
	}
	d := execution.Skill().Descriptor
	w := r.open(resultComplete)
	w.Optional("description", safetext.Line(d.Description, wire.MaxDescription))
	w.OpenArray("messages")
	for i, p := range front.Parts(outcome.Output, d.Output.ContentType) {
		w.Open()
		w.Text("role", "user")
		w.Name("content")
		w.part(&p, &outcome, i)
		w.Close()
	}
	w.CloseArray()
	return w.end(), nil
}

// maxCompletions bounds the values of an answer.
const maxCompletions = 100

// complete answers completion/complete: names for the template of resources, and values of the arguments of prompts.
func complete(r *request) (jsontext.Value, *jsonrpc.Error) {
	reference, argument := r.Param("ref").Value, r.Param("argument").Value
	if reference == nil || argument == nil {
		return nil, invalid("ref and argument are required")
	}
	if reference.Kind() != '{' || argument.Kind() != '{' {
		return nil, invalid("ref and argument must be objects")
	}
	name, value := jsonrpc.ValueOf(argument, "name"), jsonrpc.ValueOf(argument, "value")
	if name.Kind() != '"' || value.Kind() != '"' {
		return nil, invalid("argument needs the texts name and value")
	}
	switch kind := jsonrpc.Text(jsonrpc.ValueOf(reference, "type")); kind {
	case "ref/resource":
		if jsonrpc.Text(jsonrpc.ValueOf(reference, "uri")) != wire.ResourceTemplate {
			return nil, invalid("ref names no template of resources")
		}
		switch jsonrpc.Text(name) {
		case "name":
			return r.completion(namesOf(r), jsonrpc.Text(value)), nil
		case "file":
			return r.completion([]string{wire.FileSkill, wire.FileDescriptor}, jsonrpc.Text(value)), nil
		}
		return r.completion(nil, ""), nil
	case "ref/prompt":
		values, fault := valuesOf(r, jsonrpc.Text(jsonrpc.ValueOf(reference, "name")), jsonrpc.Text(name))
		if fault != nil {
			return nil, fault
		}
		return r.completion(values, jsonrpc.Text(value)), nil
	default:
		return nil, invalid("ref must be of the type ref/resource or ref/prompt")
	}
}

// completion returns the result with the first values that begin with a prefix, and the number of all.
func (r *request) completion(values []string, prefix string) jsontext.Value {
	values = slices.DeleteFunc(values, func(value string) bool { return !strings.HasPrefix(value, prefix) })
	w := r.open(resultComplete)
	w.OpenMember("completion")
	w.Texts("values", values[:min(len(values), maxCompletions)])
	w.Integer("total", int64(len(values)))
	w.Bool("hasMore", len(values) > maxCompletions)
	w.Close()
	return w.end()
}

// namesOf returns the names of the skills that the caller may see.
func namesOf(r *request) (names []string) {
	for _, e := range r.front.Bridge.List(r.ctx, translate.Query{Caller: front.Quiet(r.caller)}).Skills {
		names = append(names, e.Name)
	}
	return names
}

// valuesOf returns the values of an argument of a prompt, if it has only some.
func valuesOf(r *request, prompt, argument string) ([]string, *jsonrpc.Error) {
	d, failure := r.front.Bridge.Describe(r.ctx, translate.Call{Caller: front.Quiet(r.caller), Name: prompt})
	switch {
	case failure != nil && (isUnknownTool(failure) || failure.Kind == run.InvalidArguments), failure == nil && d.Descriptor.CapabilityType != document.Knowledge:
		return nil, invalid("ref names no prompt")
	case failure != nil:
		return nil, refusal(r, failure, "")
	}
	at := slices.IndexFunc(d.Descriptor.Inputs, func(in document.Parameter) bool { return in.Name == argument })
	if at < 0 {
		return nil, nil
	}
	return wire.ValuesOf(&d.Descriptor.Inputs[at]), nil
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
