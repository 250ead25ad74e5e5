package catalog

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Entry is a skill as its source lists it.
type Entry struct {
	Name           string // for calls
	Namespace      string
	Version        string
	Description    string
	CapabilityType document.CapabilityType
	Access         document.AccessPolicy
}

// Unavailable is a source of skills that could not be read.
type Unavailable struct {
	Namespace string
	Failure   *run.Failure
}

// List returns the skills of one source that a caller may see.
func (c *Catalog) List(ctx context.Context, s *Section, principal string) ([]Entry, *run.Failure) {
	if s.Kind == SkillSource {
		skill, err := s.Client.Skill(ctx, directSkill(s).descriptor)
		if err != nil {
			return nil, err
		}
		return []Entry{{
			Name: s.Namespace, Namespace: s.Namespace, Version: skill.Version, Description: skill.Description,
			CapabilityType: skill.CapabilityType, Access: skill.Access,
		}}, nil
	}
	t, err := c.load(ctx, s)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, e := range t.entries {
		if e.hidden() && principal == "" && !s.ListPrivate {
			continue
		}
		entries = append(entries, Entry{
			Name: e.name, Namespace: s.Namespace, Version: e.Version, Description: e.Description,
			CapabilityType: e.CapabilityType, Access: e.Access,
		})
	}
	return entries, nil
}
