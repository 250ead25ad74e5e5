package a2a_test

import (
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// skill is a descriptor of a skill of acme. Its output are its inputs, unless a test sets the answer of its route.
func skill(slug string, inputs ...object) object {
	return providertest.Skill("acme/"+slug, nil, inputs...)
}

// skills are those of an agent, if the test does not change them.
func skills() []object {
	required := func(name, kind string, more object) object {
		return providertest.Merge(providertest.Input(name, kind, object{"required": true}), more)
	}
	optional := providertest.Input
	return []object{
		skill("echo", required("text", "string", nil)),
		skill("form", required("city", "string", nil), required("days", "integer", object{"schema": object{"maximum": 10}}),
			required("unit", "string", object{"default": "c"}), optional("note", "string", object{"schema": object{"maxLength": 20}})),
		skill("files", optional("note", "string", nil),
			optional("photo", "string", object{"schema": object{"contentEncoding": "base64", "contentMediaType": "image/*"}}),
			optional("raw", "string", object{"schema": object{"contentEncoding": "base64"}}),
			optional("link", "string", object{"schema": object{"format": "uri"}})),
		skill("number", optional("n", "number", nil)),
		skill("free"),
		skill("slow", required("text", "string", nil)),
	}
}

// with changes a skill, or adds it.
func with(slug string, changes object) setup {
	return func(a *agent) {
		for i, s := range a.skills {
			if s["id"] == "acme/"+slug {
				a.skills[i] = providertest.Merge(s, changes)
				return
			}
		}
		a.skills = append(a.skills, providertest.Merge(skill(slug), changes))
	}
}

// only removes all other skills.
func only(slugs ...string) setup {
	return func(a *agent) {
		a.skills = slices.DeleteFunc(a.skills, func(s object) bool { return !slices.Contains(slugs, s["name"].(string)) })
	}
}
