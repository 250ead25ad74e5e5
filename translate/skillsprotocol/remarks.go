package skillsprotocol

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// otherNames are names that agents write for params, beside misspelt ones.
var otherNames = map[string]string{
	"arguments": paramArgs, "argument": paramArgs, "input": paramArgs, "inputs": paramArgs, "parameters": paramArgs, "params": paramArgs,
	"skill": paramName, "skill_name": paramName, "skill_id": paramName, "id": paramName, "tool": paramName, "tool_name": paramName,
	"timeout": paramTimeout, "wait": paramWait, "token": paramRunToken, "run_id": paramRunToken, "next_cursor": paramCursor,
	"filter": paramQuery, "keyword": paramQuery, "keywords": paramQuery, "max_results": paramLimit, "detail_level": paramDetail,
	"search": paramQuery, "q": paramQuery, "page_size": paramLimit, "key": paramKey, "callback": paramNotify, "webhook": paramNotify, "notification": paramNotify, "Idempotency-Key": paramKey, "idempotencyKey": paramKey, "file": paramPath,
}

// maxIgnored bounds the members whose names an answer has. Agents choose them.
const maxIgnored = 8

// ignore notes a member that the method does not have.
func (p *params) ignore(name string) {
	if len(p.ignored) < maxIgnored {
		p.ignored = append(p.ignored, visible(name))
	}
}

// remarks adds the advice and what was not used of the request to the object of an answer: the result, or the data of the error. The latter
// tells an agent that its call was understood differently from what it meant.
func (p *params) remarks(object jsontext.Value) jsontext.Value {
	if len(p.ignored) == 0 && len(p.unknown) == 0 && len(p.faults) == 0 && p.advice == "" || len(object) < 2 || object[len(object)-1] != '}' {
		return object
	}
	b := builder{front.Writer{Buf: object[:len(object)-1]}}
	if p.advice != "" {
		b.OpenMember("hint")
		b.Text("message", p.advice)
		b.Close()
		p.hinted = true
	}
	if len(p.ignored) > 0 {
		b.Texts("ignored", p.ignored)
		if !p.hinted {
			p.hint(&b)
		}
	}
	if len(p.unknown) > 0 || len(p.faults) > 0 {
		b.Raw("warnings", warnings(p.descriptor(), p.unknown, p.faults))
	}
	b.Close()
	return b.Buf
}

// descriptor returns that of the skill; nil: it is not known.
func (p *params) descriptor() *document.Descriptor {
	if p.skill == nil {
		return nil
	}
	return p.skill.Descriptor
}

// hint adds which param was meant by the first ignored member that resembles one.
func (p *params) hint(b *builder) {
	method := p.request.Method
	for _, name := range p.ignored {
		meant := ""
		if method == methodExecute && takes(p.descriptor(), name) {
			b.hintAt(name, paramArgs, "'"+name+"' was ignored: it is an input of the skill; put it into 'args'")
			return
		}
		if id := otherNames[name]; slices.Contains(methods[method].params, id) {
			meant = id
		} else if similar := near.Find(name, methods[method].index); len(similar) > 0 {
			meant = similar[0]
		}
		if meant == "" {
			continue
		}
		b.hintAt(name, meant, "'"+name+"' was ignored: "+method+" has no such member; use '"+meant+"'")
		return
	}
}

// hintAt says what was meant by an ignored member.
func (b *builder) hintAt(name, meant, message string) {
	b.OpenMember("hint")
	b.Text("param", name)
	b.Text("reason", string(reasonUnknown))
	b.Texts("candidates", []string{meant})
	b.Text("message", message)
	b.Close()
}

// withRemarks returns an answer with the remarks about its request.
func (p *params) withRemarks(result jsontext.Value, fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	if fault == nil {
		return p.remarks(result), nil
	}
	fault.Data = p.remarks(fault.Data)
	return nil, fault
}

const (
	maxArgument = 64  // characters of the name of an argument; agents choose them
	maxInputs   = 256 // inputs among which a similar one is looked for
)

// warnings returns a JSON array of what an answer says about arguments that the skill of a descriptor does not have, and that are likely to be
// misspelt, and about a provider's answer that was not valid JSON. The descriptor may be nil: it is not known.
func warnings(d *document.Descriptor, unknown, faults []string) jsontext.Value {
	w := front.Writer{Buf: []byte{'['}}
	if len(unknown) > 0 {
		warn(&w, d, unknown)
	}
	w.AnswerFaults(faults)
	w.CloseArray()
	return w.Buf
}

// warn adds the warnings about arguments.
func warn(w *front.Writer, d *document.Descriptor, unknown []string) {
	var known []string
	shown := map[string]string{} // by the inputs' own names
	if d != nil && len(d.Inputs) <= maxInputs {
		names := inputs.ModelNames(d.Inputs)
		for i := range d.Inputs {
			known = append(known, d.Inputs[i].Name)
			if name, ok := names[i]; ok {
				known = append(known, name)
				shown[d.Inputs[i].Name] = name
			}
		}
	}
	slices.Sort(known)
	index := near.NewIndex(known)
	for _, name := range unknown {
		name = visible(name)
		w.Open()
		w.Text("argument", name)
		w.Text("reason", string(reasonUnknown))
		message := "the skill has no input '" + name + "'"
		if similar := near.Find(name, index); len(similar) > 0 {
			meant := cmp.Or(shown[similar[0]], similar[0])
			message += "; did you mean '" + meant + "'?"
			w.Texts("candidates", []string{meant})
		}
		w.Text("message", message)
		w.Close()
	}
}

// visible returns a name with escapes for what is not visible in it, of at most 64 characters.
func visible(name string) string {
	if !safetext.Printable(name) {
		name = safetext.Escape(safetext.Clip(name, maxArgument), "")
	}
	return safetext.Line(name, maxArgument)
}

// takes reports whether the skill of a descriptor has an input of a name; nil: it is not known.
func takes(d *document.Descriptor, name string) bool {
	return d != nil && len(d.Inputs) <= maxInputs && inputs.ByName(d.Inputs, inputs.ModelNames(d.Inputs), name) >= 0
}
