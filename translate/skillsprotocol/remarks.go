package skillsprotocol

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol/warnings"
)

// otherNames are names that agents write for params, beside misspelt ones.
var otherNames = map[string]param{
	"arguments": paramArgs, "argument": paramArgs, "input": paramArgs, "inputs": paramArgs, "parameters": paramArgs, "params": paramArgs,
	"skill": paramName, "skill_name": paramName, "skill_id": paramName, "id": paramName, "tool": paramName, "tool_name": paramName,
	"timeout": paramTimeout, "wait": paramWait, "token": paramRunToken, "run_id": paramRunToken, "next_cursor": paramCursor,
	"filter": paramQuery, "keyword": paramQuery, "keywords": paramQuery, "max_results": paramLimit, "detail_level": paramDetail,
	"search": paramQuery, "q": paramQuery, "page_size": paramLimit, "key": paramKey, "callback": paramNotify, "webhook": paramNotify, "notification": paramNotify, "Idempotency-Key": paramKey, "idempotencyKey": paramKey, "file": paramPath,
}

// maxIgnored bounds the members whose names an answer has. Agents choose them.
const maxIgnored = 8

// ignore notes a member that the method does not have.
func (p *params) ignore(name []byte) {
	if len(p.ignored) < maxIgnored {
		p.ignored = append(p.ignored, warnings.Visible(string(name)))
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
		b.Raw("warnings", warnings.With(p.warnings.About(p.descriptor(), p.unknown), p.faults))
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
		if method == methodExecute && warnings.Takes(p.descriptor(), name) {
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
