package providertest

import (
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
)

// Object is a JSON object.
type Object = map[string]any

// Base stands for the URL of the provider in what it publishes.
const Base = "BASE"

// Skill returns a valid descriptor, with changes as those of [Merge].
func Skill(id string, changes Object, inputs ...Object) Object {
	slug := id[strings.LastIndexAny(id, "/.")+1:]
	list := make([]any, 0, len(inputs))
	for _, in := range inputs {
		list = append(list, in)
	}
	return Merge(Object{
		"protocol": Object{"version": "1.0.0"}, "id": id, "name": slug, "version": "1.2.3", "capability_type": "api",
		"description": "Does " + slug + ".", "provider": Object{"name": "Test"},
		"endpoint": Object{
			"url": Base + "/run/" + slug, "method": "POST",
			"status_url": Base + "/status/{execution_id}", "result_url": Base + "/result/{execution_id}",
		},
		"inputs": list, "output": Object{"content_type": "application/json"}, "auth": Object{"type": "none"}, "access": "public",
	}, changes)
}

// Input returns an optional input of a descriptor, with changes as those of [Merge].
func Input(name, kind string, changes Object) Object {
	return Merge(Object{"name": name, "type": kind, "description": "The " + name + ".", "required": false}, changes)
}

// Merge returns an object with changes: nil removes a member, an object changes members of an object, and anything else replaces one.
func Merge(target, changes Object) Object {
	target = maps.Clone(target)
	for k, v := range changes {
		if inner, ok := v.(Object); ok {
			if old, ok := target[k].(Object); ok {
				v = Merge(old, inner)
			}
		}
		if v == nil {
			delete(target, k)
			continue
		}
		target[k] = v
	}
	return target
}

// Answer answers with JSON. v may be its text.
func Answer(status int, v any) http.HandlerFunc {
	text, ok := v.(string)
	if !ok {
		text = encoded(v)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // it fails if the client has disconnected
	}
}

// Response returns the body of an answer about a run, with more members.
func Response(id, status string, more Object) Object {
	return Merge(Object{
		"execution_id": id, "status": status, "skill_id": "x",
		"timestamps": Object{"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z"},
	}, more)
}

// Completed answers that a run has completed.
func Completed(id string, output any) http.HandlerFunc {
	response := Response(id, "completed", nil)
	response["output"] = output // also nil
	return Answer(http.StatusOK, response)
}

// Refused answers with an error of the protocol.
func Refused(status int, code string) http.HandlerFunc {
	return Answer(status, Object{"error": Object{"code": code, "message": "It is " + code + "."}})
}

// encoded returns the JSON of a value that a test has made.
func encoded(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(text)
}
