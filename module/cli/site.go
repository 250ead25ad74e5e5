package cli

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// SiteIndex is the index of a site that publishes skills in the Agent Skills format.
const SiteIndex Kind = "index of Agent Skills"

// artifact validates the file of a skill in an index of Agent Skills.
func (by *Validator) artifact(ctx context.Context, e *document.IndexEntry) listedDescriptor {
	l := listedDescriptor{ID: e.ID, URL: skillsite.URLOf(e), Faults: []fault{}}
	text, _, err := by.Fetch(ctx, l.URL)
	if err != nil {
		l.Error = textOf(err)
		return l
	}
	l.Faults = plainFaults(skillsite.InspectArtifact(e, text))
	l.Valid = len(l.Faults) == 0
	return l
}

// siteFaults returns the first violations of an index of Agent Skills as faults.
func siteFaults(found []run.Violation) []fault {
	list := plainFaults(found)
	for i := range list {
		m := skillsite.MeaningOf(list[i].Path)
		list[i].About, list[i].Example = m.About, m.Example
	}
	return list
}

// plainFaults returns the first violations as faults without the meaning of members.
func plainFaults(found []run.Violation) []fault {
	list := make([]fault, min(len(found), maxFaults))
	for i := range list {
		list[i].Violation = found[i]
	}
	return list
}
