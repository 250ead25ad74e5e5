package modern

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// ofTranslation ends the violations of a schema that does not state its draft, whose author has not written what they are about.
const ofTranslation = " (in the schema as it reads in Draft 2020-12, since it has keywords of older drafts and no $schema)"

// Compile compiles a schema as [schema.Compiler.Compile] does. If it is of an older draft, the translation replaces its text and object, unless it is
// only valid as it is written, by references that are too unusual to be translated. Violations are those of the schema as it is written, by the draft
// that it states.
func Compile(c *schema.Compiler, text *jsontext.Value, object *map[string]any, kind, path string) (*schema.Schema, []run.Violation) {
	translated, ok := Schema(*object, kind)
	if !ok {
		return c.Compile(*text, *object, path)
	}
	var modern jsontext.Value
	if *text != nil {
		modern = jsonvalue.Marshal(translated)
	}
	compiled, flaws := c.Compile(modern, translated, path)
	if len(flaws) == 0 {
		*object, *text = translated, modern
		return compiled, nil
	}
	declared := (*object)["$schema"]
	if dialectOf(declared) != 0 { // it can only be compiled without its $schema
		return nil, flaws
	}
	compiled, own := c.Compile(*text, *object, path)
	if len(own) == 0 || declared != nil {
		return compiled, own
	}
	for i := range flaws {
		flaws[i].Message = safetext.Clip(flaws[i].Message, jsonvalue.MaxMessage-len(ofTranslation)) + ofTranslation
	}
	return nil, flaws
}
