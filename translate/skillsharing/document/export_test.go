package document

import "github.com/skill-bridge/caddy-skill-bridge/translate/run"

var (
	IsNewer   = isNewer
	IsVersion = isVersion
)

// Validate judges a document within the limits that hold where the operator has set none.
func Validate(def string, doc []byte) []run.Violation { return Standard.validate(definition(def), doc) }
