package skillsprotocol

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// otherNames are names that agents write for params, beside misspelt ones.
var otherNames = map[string]param{
	"arguments": paramArgs, "argument": paramArgs, "input": paramArgs, "inputs": paramArgs, "parameters": paramArgs, "params": paramArgs,
	"skill": paramName, "skill_name": paramName, "skill_id": paramName, "id": paramName, "tool": paramName, "tool_name": paramName,
	"timeout": paramTimeout, "wait": paramWait, "token": paramRunToken, "run_id": paramRunToken, "next_cursor": paramCursor,
	"filter": paramQuery, "keyword": paramQuery, "keywords": paramQuery, "max_results": paramLimit, "detail_level": paramDetail,
	"search": paramQuery, "q": paramQuery, "page_size": paramLimit, "key": paramKey, "callback": paramNotify, "webhook": paramNotify, "notification": paramNotify, "Idempotency-Key": paramKey, "idempotencyKey": paramKey, "file": paramPath,
}

// Bounds of what an answer says about members and arguments that it does not know. Agents choose their names.
const (
	maxIgnored     = 8
	maxIgnoredName = 64  // characters
	maxNearInputs  = 256 // inputs among which a similar one is looked for
)

// ignore notes a member that the method does not have.
func (p *params) ignore(name []byte) {
	if len(p.ignored) < maxIgnored {
		p.ignored = append(p.ignored, visible(string(name)))
	}
}

// visible returns a name with escapes for what is not visible in it.
func visible(name string) string {
	if !safetext.Printable(name) {
		name = safetext.Escape(safetext.Clip(name, maxIgnoredName), "")
	}
	return safetext.Line(name, maxIgnoredName)
}

// remarks adds the advice and what was not used of the request to the object of an answer: the result, or the data of the error. The latter
// tells an agent that its call was understood differently from what it meant.
func (p *params) remarks(object jsontext.Value) jsontext.Value {
	if len(p.ignored) == 0 && len(p.unknown) == 0 && p.advice == "" || len(object) < 2 || object[len(object)-1] != '}' {
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
	if len(p.unknown) > 0 {
		b.Raw("warnings", p.warned.of(p.skill, p.unknown))
	}
	b.Close()
	return b.Buf
}

// hint adds which param was meant by the first ignored member that resembles one.
func (p *params) hint(b *builder) {
	method := p.request.Method
	for _, name := range p.ignored {
		meant := ""
		if method == methodExecute && takes(p.skill, name) {
			b.hintAt(name, paramNames[paramArgs], "'"+name+"' was ignored: it is an input of the skill; put it into 'args'")
			return
		}
		if id := otherNames[name]; id != paramUnknown && knows(method, id) {
			meant = paramNames[id]
		} else if similar := near.Find(name, paramIndexes[method]); len(similar) > 0 {
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

// takes reports whether a skill has an input with a name; nil: it is not known.
func takes(s *translate.Skill, name string) bool {
	if s == nil || len(s.Descriptor.Inputs) > maxNearInputs {
		return false
	}
	for i := range s.Descriptor.Inputs {
		if s.Descriptor.Inputs[i].Name == name {
			return true
		}
	}
	return false
}

// unknownInput adds a warning about an argument that the skill does not have.
func (b *builder) unknownInput(name string, inputs *near.Index) {
	name = visible(name)
	b.Open()
	b.Text("argument", name)
	b.Text("reason", string(reasonUnknown))
	message := "the skill has no input '" + name + "'"
	if similar := near.Find(name, inputs); len(similar) > 0 {
		message += "; did you mean '" + similar[0] + "'?"
		b.Texts("candidates", similar[:1])
	}
	b.Text("message", message)
	b.Close()
}

// inputIndex finds the inputs of a skill by similar names.
func inputIndex(s *translate.Skill) *near.Index {
	var names []string
	if s != nil && len(s.Descriptor.Inputs) <= maxNearInputs {
		for i := range s.Descriptor.Inputs {
			names = append(names, s.Descriptor.Inputs[i].Name)
		}
	}
	slices.Sort(names)
	return near.NewIndex(names)
}

// paramIndexes find the params of methods by similar names.
var paramIndexes = func() map[string]*near.Index {
	indexes := map[string]*near.Index{}
	for method, ids := range methodParams {
		var names []string
		for _, id := range ids {
			names = append(names, paramNames[id])
		}
		slices.Sort(names)
		indexes[method] = near.NewIndex(names)
	}
	return indexes
}()

// withRemarks returns an answer with the remarks about its request.
func (p *params) withRemarks(result jsontext.Value, fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	if fault == nil {
		return p.remarks(result), nil
	}
	fault.Data = p.remarks(fault.Data)
	return nil, fault
}
