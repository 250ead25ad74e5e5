package setup

import (
	"encoding/json" // whose rules Caddy's modules follow
	"maps"
	"reflect"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Schema returns a JSON Schema of the handlers skill_bridge and skill_publish in Caddy's JSON, with the modules of this program.
func Schema() any {
	s := schemas{}
	var handlers []any
	for _, id := range []string{"http.handlers.skill_bridge", "http.handlers.skill_publish"} {
		if info, err := caddy.GetModule(id); err == nil {
			handlers = append(handlers, s.module(info, "handler"))
		}
	}
	return object{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Handlers of Skill Bridge in Caddy's JSON", "anyOf": handlers, "$defs": s}
}

type object = map[string]any

// schemas are the schemas of modules and of types, by name.
type schemas map[string]any

// define returns a reference to a schema, which a function makes unless it is known.
func (s schemas) define(name string, structure func() object) any {
	if _, known := s[name]; !known {
		s[name] = true // until it is made, for types that contain themselves
		s[name] = structure()
	}
	return object{"$ref": "#/$defs/" + name}
}

// module returns the schema of a module whose name is the value of a member.
func (s schemas) module(info caddy.ModuleInfo, member string) any {
	return s.define(string(info.ID), func() object {
		t := reflect.TypeOf(info.New())
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		o := object{"type": "object", "properties": object{}}
		if t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(unmarshaler) {
			o = s.structure(t)
		}
		o["properties"].(object)[member] = object{"const": info.ID.Name()}
		o["required"] = []string{member}
		return o
	})
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (s schemas) structure(t reflect.Type) object {
	properties := object{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			maps.Copy(properties, s.structure(f.Type)["properties"].(object))
		case !f.IsExported() || name == "-" || name == "":
		case f.Tag.Get("caddy") != "":
			properties[name] = s.guest(f.Tag.Get("caddy"))
		default:
			properties[name] = s.of(f.Type)
		}
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// guest returns the schema of a module that another one hosts, by its tag.
func (s schemas) guest(tag string) any {
	namespace, member, _ := strings.Cut(strings.TrimPrefix(tag, "namespace="), " inline_key=")
	if !strings.HasPrefix(namespace, "http.skill_bridge.") { // Caddy's own
		return object{"type": "object", "required": []string{member}}
	}
	var guests []any
	for _, info := range caddy.GetModules(namespace) {
		guests = append(guests, s.module(info, member))
	}
	return object{"anyOf": guests}
}

func (s schemas) of(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[caddy.Duration]():
		return object{"type": []string{"integer", "string"}, "description": "nanoseconds, or a text such as 1h30m"}
	case reflect.PointerTo(t).Implements(unmarshaler):
		return true
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		return s.define(t.String(), func() object { return s.structure(t) })
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Interface:
		return true
	}
	return object{"type": "integer"}
}
