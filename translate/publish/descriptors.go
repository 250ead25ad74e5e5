package publish

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Descriptors reads the descriptors that were written by hand in a folder, each in a file *.json, *.yaml or *.yml. Files that have none are left
// out, and those with the same id.
func Descriptors(folder string) ([]*Skill, []LeftOut, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, err
	}
	c := collection{operations: map[string][]string{}}
	for _, file := range files {
		name := file.Name()
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(name)) && !strings.HasPrefix(name, ".") {
			skill, err := readDescriptor(filepath.Join(folder, name))
			c.add(name, skill, err)
		}
	}
	c.finish()
	return c.skills, c.leftOut, nil
}

func readDescriptor(path string) (*Skill, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, fmt.Errorf("it is no file of at most %d bytes", maxBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("it can't be read")
	}
	if text = document.WithoutBOM(text); filepath.Ext(path) != ".json" {
		value, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("it %w", err)
		}
		for place, in := range jsonvalue.Within(value) {
			if in == (twice{}) {
				return nil, fmt.Errorf("it has the member %s twice in one object", place.Name)
			}
		}
		text = jsonvalue.Marshal(value)
	}
	d, err := document.ParseDescriptor(text)
	if err != nil {
		return nil, invalid(err)
	}
	return &Skill{ID: d.ID, Access: d.Access, Type: d.CapabilityType, entry: entryOf(d), before: text}, nil
}

// collection are the skills of one document or folder.
type collection struct {
	skills     []*Skill
	leftOut    []LeftOut
	operations map[string][]string // or names of files, by the ids of their skills
	size       int                 // bytes of the descriptors
}

// add adds a skill, or says why the operation, or the file, is none.
func (c *collection) add(operation string, skill *Skill, err error) {
	if err == nil {
		if c.size += len(skill.before) + len(skill.after); c.size > maxDescriptors || len(c.skills) == document.MaxSkills {
			err = fmt.Errorf("there are more than %d skills, or more than %d bytes of descriptors", document.MaxSkills, maxDescriptors)
		} else if why := document.UnlistedID(skill.ID); why != "" {
			err = errors.New(why)
		}
	}
	if err != nil {
		c.leftOut = append(c.leftOut, LeftOut{operation, err.Error()})
		return
	}
	c.operations[skill.ID] = append(c.operations[skill.ID], operation)
	c.skills = append(c.skills, skill)
}

// finish leaves out skills with the same id, and sorts the others.
func (c *collection) finish() {
	c.skills = slices.DeleteFunc(c.skills, func(s *Skill) bool { return len(c.operations[s.ID]) > 1 })
	slices.SortFunc(c.skills, func(a, b *Skill) int { return cmp.Compare(a.ID, b.ID) })
	for _, id := range slices.Sorted(maps.Keys(c.operations)) {
		if all := c.operations[id]; len(all) > 1 {
			for _, operation := range all {
				c.leftOut = append(c.leftOut, LeftOut{operation, fmt.Sprintf("%d have the id %s: %s", len(all), id, strings.Join(all, ", "))})
			}
		}
	}
}
