package lint

import (
	"maps"
	"slices"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/ecma"
)

// patterns adds the warnings about the regular expressions of a schema, which is valid.
func (w *warnings) patterns(path string, value any) {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			w.patterns(path+"/"+strconv.Itoa(i), item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			member, at := value[name], path+jsonvalue.Pointer([]string{name})
			switch name {
			case "pattern":
				expression, _ := member.(string)
				w.pattern(at, expression)
			case "patternProperties":
				expressions, _ := member.(map[string]any)
				for _, expression := range slices.Sorted(maps.Keys(expressions)) {
					w.pattern(at, expression)
				}
			}
			w.patterns(at, member)
		}
	}
}

func (w *warnings) pattern(path, expression string) {
	switch x, err := ecma.Translate(expression); {
	case err != nil: // no pattern, but data or the name of a property
	case x.Obstacle != "":
		w.add(path, "can't be evaluated in linear time ("+x.Obstacle+"), so that bridges don't apply the schema: only the provider does")
	case x.Lenient:
		w.add(path, `is only legal without the flag u of ECMA-262, so that some validators refuse it; in others, a letter after \ that is no escape, such as \A or \Z, is that letter`)
	}
}
