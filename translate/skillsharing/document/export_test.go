package document

import (
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

var (
	IsNewer   = isNewer
	IsVersion = isVersion
)

// Validate returns what is wrong with a document within the limits that hold where the operator has set none.
func Validate(def string, doc []byte) []run.Violation {
	var err error
	switch definition(def) {
	case defSkillDescriptor:
		_, err = ParseDescriptor(doc)
	case defSkillIndex:
		_, err = ParseIndex(doc)
	default:
		return check(definition(def), doc)
	}
	if f, failed := errors.AsType[*run.Failure](err); failed {
		return f.Violations
	}
	return nil
}
