package setup

import (
	"cmp"
	"encoding" // whose rules, and those of encoding/json, Caddy's modules follow
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Sources has the files of this project with types of the configuration, by their paths below the folder module.
var Sources fs.FS

// Schema returns a JSON Schema of Caddy's JSON with the modules of this program. What is of this project is described as its source code does it.
func Schema() any {
	s := schemas{defs: object{}, comments: comments()}
	schema := s.structure(reflect.TypeFor[caddy.Config]())
	schema["$schema"], schema["title"], schema["$defs"] = "https://json-schema.org/draft/2020-12/schema", "Configuration of Caddy with Skill Bridge", s.defs
	return schema
}

type object = map[string]any

// schemas are the schemas of modules and of types, by name, and the comments in [Sources], by their names in Go.
type schemas struct {
	defs     object
	comments map[string]string
}

// commented finds structures and fields for JSON with the lines of comments before them, in the format of gofmt.
var commented = regexp.MustCompile(`(?m)((?:^\t?//.*\n)*)^(?:type |\t)(\w+) .*(struct \{$|json:)`)

// comments returns the comments of types and fields in [Sources].
func comments() map[string]string {
	all := map[string]string{}
	files, _ := fs.Glob(Sources, "*/*.go")
	for _, file := range files {
		text, _ := fs.ReadFile(Sources, file) // it is in memory
		structure := ""
		for _, found := range commented.FindAllSubmatch(text, -1) {
			name := path.Dir(file) + "." + string(found[2])
			if string(found[3]) == "json:" {
				name = structure + "." + string(found[2])
			} else {
				structure = name
			}
			paragraphs := strings.Split(strings.NewReplacer("\t", "", "// ", "", "//", "").Replace(string(found[1])), "\n\n")
			for i := range paragraphs {
				paragraphs[i] = strings.Join(strings.Fields(paragraphs[i]), " ")
			}
			all[name] = strings.Join(paragraphs, "\n\n")
		}
	}
	return all
}

// describe adds the comment of a type or of a field to a schema.
func (s *schemas) describe(schema any, t reflect.Type, field string) any {
	folder, _ := strings.CutPrefix(t.PkgPath(), path.Dir(reflect.TypeFor[schemas]().PkgPath())+"/")
	comment := s.comments[folder+"."+t.Name()+field]
	if o, ok := schema.(object); ok && comment != "" {
		o["description"] = comment
	} else if comment != "" {
		return object{"description": comment}
	}
	return schema
}

// unescaped finds what a JSON Pointer or a URL would have to escape in the name of a type, such as the brackets of one with parameters.
var unescaped = regexp.MustCompile(`[^\w.-]`)

// define returns a reference to a schema, which a function makes unless it is known.
func (s *schemas) define(name string, structure func() object) any {
	name = unescaped.ReplaceAllString(name, ".")
	if _, known := s.defs[name]; !known {
		s.defs[name] = true // until it is made, for types that contain themselves
		s.defs[name] = structure()
	}
	return object{"$ref": "#/$defs/" + name}
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (s *schemas) structure(t reflect.Type) object {
	properties := object{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch module, _ := caddy.ParseStructTag(f.Tag.Get("caddy")); { // an error is one of the module
		case f.Anonymous && name == "":
			maps.Copy(properties, s.structure(value(f.Type))["properties"].(object))
		case !f.IsExported() || name == "-":
		case f.Tag.Get("caddy") != "":
			properties[name] = s.describe(s.guests(f.Type, module["namespace"], module["inline_key"]), t, "."+f.Name)
		default:
			properties[cmp.Or(name, f.Name)] = s.describe(s.of(f.Type), t, "."+f.Name)
		}
	}
	o := object{"type": "object", "properties": properties, "patternProperties": object{"^@id$": true}, "additionalProperties": false}
	s.describe(o, t, "")
	return o
}

// value returns a type without pointers.
func value(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// guests returns the schema of a field for modules, of which a member has the names; empty: they are names of members.
func (s *schemas) guests(t reflect.Type, namespace, member string) any {
	all := caddy.GetModules(namespace)
	switch {
	case t != caddy.JSONRawMessageType && t.Kind() == reflect.Slice:
		return object{"type": "array", "items": s.guests(t.Elem(), namespace, member)}
	case t.Kind() == reflect.Map && member != "":
		return object{"type": "object", "additionalProperties": s.guests(t.Elem(), namespace, member)}
	case t.Kind() == reflect.Map:
		properties := object{}
		for _, info := range all {
			properties[info.ID.Name()] = s.of(reflect.TypeOf(info.New()))
		}
		return object{"type": "object", "properties": properties, "patternProperties": object{"^@id$": true}, "additionalProperties": false}
	}
	names, cases := []string{}, []any{true} // a program may have no such module
	for _, info := range all {
		is := object{"const": info.ID.Name()}
		names = append(names, info.ID.Name())
		cases = append(cases, object{"if": object{"properties": object{member: is}}, "then": s.define(string(info.ID), func() object {
			t, o := value(reflect.TypeOf(info.New())), object{"type": "object", "properties": object{}}
			if t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(unmarshaler) {
				o = s.structure(t)
			}
			o["properties"].(object)[member] = is
			return o
		})})
	}
	return object{"type": "object", "required": []string{member}, "properties": object{member: object{"enum": names}}, "allOf": cases}
}

func (s *schemas) of(t reflect.Type) any {
	switch pointer := reflect.PointerTo(t); {
	case t == reflect.TypeFor[caddy.Duration]():
		return object{"type": []string{"integer", "string"}, "description": "nanoseconds, or a text such as 1h30m"}
	case pointer.Implements(unmarshaler):
		return true
	case pointer.Implements(textUnmarshaler):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		return s.define(t.PkgPath()+"."+t.Name(), func() object { return s.structure(t) })
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string"}
		}
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64, reflect.Float32:
		return object{"type": "number"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Interface:
		return true
	}
	return object{"type": "integer"}
}
