package message

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Inputs are the inputs for a skill, in the order of the parts that have them.
type Inputs struct {
	// Unread is the name of the input that the text is for, if it can't be its value because the text is not JSON.
	Unread string

	list []input
	at   map[string]int // indexes by name
	text jsontext.Value // the JSON object of all inputs; nil: not encoded yet
}

type input struct {
	name  string
	value jsontext.Value
	field string // the path of the input in the request
}

// Gather returns the inputs of a task together with those of a message. Inputs of the message replace those of the task with the
// same name; two parts of the message with the same input are a failure. earlier are the messages to the task before its skill was
// known: their data are inputs of the task, but which inputs their files are is not known before. names are the indexes of
// the parts whose text is the name of the skill.
func Gather(have jsontext.Value, earlier []task.Message, parts []task.Part, s *translate.Skill, names []int) (*Inputs, *run.Failure) {
	list := inputsOf(have)
	params := parametersOf(s)
	for i := range earlier {
		for j := range earlier[i].Parts {
			if p := &earlier[i].Parts[j]; isFile(p) {
				if f := list.addFile(p, "an earlier message", "", params); f != nil {
					return nil, f
				}
			}
		}
	}
	if f := list.mergeData(parts); f != nil {
		return nil, f
	}
	for i := range parts {
		if p := &parts[i]; isFile(p) {
			if f := list.addFile(p, PartField(i), PartField(i), params); f != nil {
				return nil, f
			}
		}
	}
	if !slices.ContainsFunc(parts, isStructured) {
		if f := list.addText(joinedText(parts, names), params); f != nil {
			return nil, f
		}
	}
	return list, nil
}

// GatherData does what [Gather] does, for parts with data only. It needs no descriptor.
func GatherData(have jsontext.Value, parts []task.Part) (*Inputs, *run.Failure) {
	list := inputsOf(have)
	if f := list.mergeData(parts); f != nil {
		return nil, f
	}
	return list, nil
}

// inputsOf returns the inputs of a task.
func inputsOf(have jsontext.Value) *Inputs {
	list := new(Inputs)
	_ = list.merge(have, "") // the inputs of a task have different names, so this can't fail
	return list
}

// isFile reports whether a part is a file.
func isFile(p *task.Part) bool { return p.Kind == front.PartBytes || p.Kind == front.PartURL }

// mergeData adds the inputs in the parts with data.
func (l *Inputs) mergeData(parts []task.Part) *run.Failure {
	for i := range parts {
		p := &parts[i]
		_, in, isEnvelope := Envelope(p)
		switch {
		case isEnvelope:
		case p.Kind == front.PartData:
			in = p.Data
		default:
			continue
		}
		if in == nil {
			continue
		}
		if in.Kind() != '{' {
			return wrongPart(PartField(i), "has to be an object of inputs")
		}
		if f := l.merge(in, PartField(i)); f != nil {
			return f
		}
	}
	return nil
}

// isStructured reports whether a part has inputs with their names. If so, texts beside it are comments.
func isStructured(p task.Part) bool {
	_, _, isEnvelope := Envelope(&p)
	return isEnvelope || p.Kind == front.PartData
}

// merge adds the members of an object as inputs.
func (l *Inputs) merge(object jsontext.Value, field string) *run.Failure {
	alone := len(l.list) == 0
	for name, value := range jsonrpc.Members(object) {
		if failure := l.add(string(jsonrpc.Unquote(name)), value, field); failure != nil {
			return failure
		}
	}
	if alone && len(l.list) > 0 {
		l.text = object
	}
	return nil
}

// add adds an input. field is its path in the request.
func (l *Inputs) add(name string, value jsontext.Value, field string) *run.Failure {
	l.text = nil
	i, given := l.at[name]
	if !given {
		if l.at == nil {
			l.at = map[string]int{}
		}
		l.at[name] = len(l.list)
		l.list = append(l.list, input{name, value, field})
		return nil
	}
	if earlier := l.list[i].field; earlier != "" {
		return run.WrongArgument(run.Argument{Field: run.FieldInput, Name: name, Pointer: jsonvalue.Pointer([]string{name}), Reason: reasonTwice},
			"the input "+task.Quoted(name)+" is given by "+earlier+" and by "+field+": send it once")
	}
	l.list[i] = input{name, value, field}
	return nil
}

// Reasons of this front, for [run.Argument].
const (
	reasonTwice   run.Reason = "given_twice"
	reasonInvalid run.Reason = "invalid"
	// ReasonNoInput means that the skill has no input for a file.
	ReasonNoInput run.Reason = "no_input_for_part"
)

// has reports whether the i-th parameter is given, by one of its names.
func (l *Inputs) has(p parameters, i int) bool {
	_, given := l.at[p.list[i].Name]
	if shown, renamed := p.names[i]; renamed && !given {
		_, given = l.at[shown]
	}
	return given
}

// parameters are those of a skill, with the names that its input schema has.
type parameters struct {
	list  []document.Parameter
	names map[int]string // of those that it has other names for
}

func parametersOf(s *translate.Skill) parameters {
	return parameters{s.Descriptor.Inputs, inputs.ModelNames(s.Descriptor.Inputs)}
}

// shown returns the name that the input schema has for the i-th parameter.
func (p *parameters) shown(i int) string {
	if name, renamed := p.names[i]; renamed {
		return name
	}
	return p.list[i].Name
}

// sort sorts names of parameters as the descriptor has them.
func (p *parameters) sort(names []string) {
	places := make(map[string]int, 2*len(p.list))
	for i := range p.list {
		places[p.list[i].Name], places[p.shown(i)] = i, i
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(places[a], places[b]) })
}

// find returns the place of the parameter with one of these names; -1: there is none.
func (p *parameters) find(name string) int { return inputs.ByName(p.list, p.names, name) }

// addText adds the text of a message without data: as an object of inputs, or as the value of one input.
func (l *Inputs) addText(text string, params parameters) *run.Failure {
	if strings.TrimSpace(text) == "" || len(params.list) == 0 {
		return nil
	}
	if object := jsontext.Value(text); isJSON(object) && object.Kind() == '{' {
		known, some := true, false
		for name := range jsonrpc.Members(object) {
			known, some = known && params.find(string(jsonrpc.Unquote(name))) >= 0, true
		}
		if known && some {
			return l.merge(object, "message.parts")
		}
	}
	next := -1
	for i := range params.list {
		if p := &params.list[i]; p.Required && p.Default == nil && !l.has(params, i) {
			next = i
			break
		}
	}
	if next < 0 && len(params.list) == 1 && !l.has(params, 0) {
		next = 0
	}
	if next < 0 {
		return nil
	}
	p := &params.list[next]
	value := jsontext.Value(text)
	switch {
	case p.Type == "string":
		value = front.AppendText(nil, text)
	case !isJSON(value):
		l.Unread = params.shown(next)
		return nil
	default:
		value = jsontext.Value(strings.TrimSpace(text))
	}
	return l.add(params.shown(next), value, "message.parts")
}

// addFile adds a file as the value of the input that takes it. where is the part or message that has it, and field is its path in the
// request; empty: it is not in the request.
func (l *Inputs) addFile(p *task.Part, where, field string, params parameters) *run.Failure {
	var metadata struct {
		Input string `json:"input"`
	}
	_ = json.Unmarshal(p.Metadata, &metadata, jsontext.AllowDuplicateNames(true)) // other values than texts are not for the bridge
	if name := metadata.Input; name != "" {
		at := params.find(name)
		if at < 0 || params.list[at].Type != "string" {
			return wrongPart(where, "names the input "+task.Quoted(name)+", which is no text input of the skill")
		}
		text := p.Text
		if p.Kind == front.PartBytes && isText(p.MediaType) && keywordsOf(&params.list[at]).Encoding == "" {
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil || !utf8.Valid(decoded) {
				return wrongPart(where, "has to be UTF-8, since its media type is that of a text")
			}
			text = string(decoded)
		}
		return l.add(name, front.AppendText(nil, text), field)
	}
	for at := range params.list {
		if param := &params.list[at]; param.Type == "string" && takes(param, p) && !l.has(params, at) {
			return l.add(params.shown(at), front.AppendText(nil, p.Text), field)
		}
	}
	return run.WrongArgument(run.Argument{Field: run.FieldOther, Name: where, Reason: ReasonNoInput},
		"the skill has no input for the file of "+where+"; name one with the member input of the part's metadata")
}

// isText reports whether a media type is that of texts or of JSON.
func isText(mediaType string) bool {
	mediaType = front.Essence(mediaType)
	return strings.HasPrefix(mediaType, "text/") || mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// keywords are the keywords of an input's schema that say what its text is.
type keywords struct {
	Encoding  string `json:"contentEncoding"`
	MediaType string `json:"contentMediaType"`
	Format    string `json:"format"`
}

func keywordsOf(param *document.Parameter) (k keywords) {
	_ = json.Unmarshal(param.Schema, &k) // it may also be true or false
	return k
}

// takes reports whether an input takes a file: raw bytes need contentEncoding base64 and a fitting contentMediaType, a URL needs
// format uri.
func takes(param *document.Parameter, p *task.Part) bool {
	k := keywordsOf(param)
	if p.Kind == front.PartURL {
		return k.Format == "uri"
	}
	return k.Encoding == "base64" && fits(p.MediaType, k.MediaType)
}

// fits reports whether a given media type is the wanted one. An empty one fits any other, and the wanted one may be a range
// such as image/*.
func fits(given, wanted string) bool {
	given, wanted = front.Essence(given), front.Essence(wanted)
	if given == "" || wanted == "" || wanted == "*/*" || given == wanted {
		return true
	}
	kind, isRange := strings.CutSuffix(wanted, "/*")
	return isRange && strings.HasPrefix(given, kind+"/")
}

// Object returns the inputs as a JSON object.
func (l *Inputs) Object() jsonrpc.Object {
	if l.text == nil {
		var w front.Writer
		w.Open()
		for _, in := range l.list {
			w.Key(in.name)
			w.Buf = append(w.Buf, in.value...)
		}
		w.Close()
		l.text = w.Buf
	}
	return jsonrpc.Object{Text: l.text, Members: jsonrpc.MembersOf(l.text)}
}

// Remove removes an input.
func (l *Inputs) Remove(name string) {
	l.list = slices.DeleteFunc(l.list, func(in input) bool { return in.name == name })
	l.text, l.at = nil, map[string]int{}
	for i, in := range l.list {
		l.at[in.name] = i
	}
}

func wrongPart(where, problem string) *run.Failure {
	return run.WrongArgument(run.Argument{Field: run.FieldOther, Name: where, Reason: reasonInvalid}, where+" "+problem)
}

// PartField returns the path of a part in a request.
func PartField(i int) string { return "message.parts[" + strconv.Itoa(i) + "]" }

// joinedText returns the texts of the parts, joined by line breaks, without the parts that are names.
func joinedText(parts []task.Part, names []int) string {
	var texts []string
	for i := range parts {
		if parts[i].Kind == front.PartText && !slices.Contains(names, i) {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n")
}
