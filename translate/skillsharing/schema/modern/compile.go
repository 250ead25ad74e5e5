package modern

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// ofTranslation ends the violations of a schema that was translated: their paths and rules are those of the translation.
const ofTranslation = " (in the schema as it reads in Draft 2020-12)"

// Compile compiles a schema as [schema.Compiler.Compile] does. If it is of an older draft, the translation replaces its text and object.
func Compile(c *schema.Compiler, text *jsontext.Value, object *map[string]any, kind, path string) (*schema.Schema, []run.Violation) {
	translated, ok := Schema(*object, kind)
	if !ok {
		return c.Compile(*text, *object, path)
	}
	*object = translated
	if *text != nil {
		*text = jsonvalue.Marshal(translated)
	}
	compiled, flaws := c.Compile(*text, translated, path)
	for i := range flaws {
		flaws[i].Message = safetext.Clip(flaws[i].Message, jsonvalue.MaxMessage-len(ofTranslation)) + ofTranslation
	}
	return compiled, flaws
}
