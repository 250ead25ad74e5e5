package publish

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// A Skill is published: an operation of an API, or a descriptor that was written by hand. It is immutable.
type Skill struct {
	document.IndexEntry // without the URL of the descriptor: see Entry
	// Operation is what an invocation becomes; nil: the descriptor was written by hand, and its endpoint is elsewhere.
	Operation *Operation
	// Inputs checks the arguments of invocations; nil if Operation is nil.
	Inputs *inputs.Inputs

	from LeftOut // the reason is what is missing in the document
	// text is the descriptor, with anyBase and anyProvider if it was not written by hand.
	text []byte
}

// Texts that stand for where skills are served, and for the name of the provider. No document has them by chance.
var (
	anyBase     = "https://" + strings.ToLower(rand.Text()) + ".invalid"
	anyProvider = rand.Text()
)

// Entry returns the entry in the index. base is where the skills are served, such as https://api.example.com/skill-sharing.
func (s *Skill) Entry(base string) document.IndexEntry {
	entry := s.IndexEntry
	entry.DescriptorURL = s.at(base) + ".json"
	return entry
}

// Descriptor returns the descriptor as JSON. The endpoint of an operation is the skill's id below base, and its provider has a name.
func (s *Skill) Descriptor(base, provider string) []byte {
	text := s.text
	for placeholder, value := range map[string]string{anyBase: base, anyProvider: provider} {
		quoted := jsonvalue.Quoted(value)
		text = bytes.ReplaceAll(text, []byte(placeholder), quoted[1:len(quoted)-1])
	}
	return text
}

// at returns the URL of the skill.
func (s *Skill) at(base string) string {
	return base + (&url.URL{Path: "/" + s.ID}).EscapedPath()
}

func skillOf(d *document.Descriptor) *Skill {
	return &Skill{IndexEntry: document.IndexEntry{ID: d.ID, Name: d.Name, CapabilityType: d.CapabilityType, Description: d.Description, Access: d.Access, Version: d.Version}}
}

// maxNesting is how deep a schema nests at most that bridges apply.
var maxNesting = schema.ArgumentBounds.Depth

// newSkill returns the skill with a descriptor, if bridges take it. The schema of the output is left out if they do not take it with that.
func newSkill(d *document.Descriptor, operation *Operation) (*Skill, error) {
	s := skillOf(d)
	s.Operation = operation
	d.Endpoint.URL, d.Endpoint.StatusURL = s.at(anyBase), anyBase+"/runs/{execution_id}"
	value, _ := jsonvalue.Read(d.Output.Schema, schema.ArgumentBounds) // nil: it nests too deep
	if _, flaws := inputs.New(&document.Standard, []document.Parameter{{Name: "output", Schema: d.Output.Schema}}, []any{value}); flaws != nil {
		d.Output.Schema = nil
	}
	for {
		s.text = jsonvalue.Marshal(d)
		_, err := document.Standard.ReadDescriptor(s.text, func(params []document.Parameter, schemas []any) (found jsonvalue.Violations) {
			s.Inputs, found = inputs.New(&document.Standard, params, schemas)
			return found
		})
		if err == nil || d.Output.Schema == nil {
			return s, invalid(err)
		}
		d.Output.Schema = nil
	}
}

// invalid returns the error of a descriptor that can't be read.
func invalid(err error) error {
	if failure, ok := errors.AsType[*run.Failure](err); ok && len(failure.Violations) > 0 {
		return fmt.Errorf("bridges don't take its descriptor: %s %s", failure.Violations[0].Path, failure.Violations[0].Message)
	}
	return err
}

// Descriptors reads the descriptors that were written by hand in a folder, each in a file *.json, *.yaml or *.yml. Files that have none are left
// out.
func Descriptors(folder string) (*API, error) {
	files, err := os.ReadDir(folder)
	c := collection{document: folder, API: API{Files: []string{folder}}}
	for _, file := range files {
		name := file.Name()
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(name)) && !strings.HasPrefix(name, ".") {
			skill, err := readDescriptor(filepath.Join(folder, name))
			c.add(name, skill, err)
		}
	}
	return &c.API, err
}

func readDescriptor(path string) (*Skill, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, cmp.Or(err, fmt.Errorf("it is no file of at most %d bytes", maxBytes))
	}
	text, err := os.ReadFile(path)
	if filepath.Ext(path) != ".json" && err == nil {
		var value any
		value, err = parse(text)
		text = jsonvalue.Marshal(value)
	}
	if err != nil {
		return nil, fmt.Errorf("it %w", err)
	}
	d, err := document.ParseDescriptor(text)
	if err != nil {
		return nil, invalid(err)
	}
	s := skillOf(d)
	s.text = document.WithoutBOM(text)
	return s, nil
}

// A LeftOut is an operation that is included, but is no skill, or a part of one that is.
type LeftOut struct {
	Document  string // its file, folder or URL; empty: that of the API
	Operation string // its operationId, or its method and path; of a descriptor that was written by hand, the name of its file
	Reason    string // for the operator; quotes no contents of referred files
	Mistake   bool   // the options or the document name what does not exist; false: such an operation can't be a skill, or Published
	Published bool   // the operation is a skill, without what the reason says
}

// What says whether the operation is published, and the reason.
func (l *LeftOut) What() string {
	if l.Published {
		return "published, but " + l.Reason
	}
	return "not published: " + l.Reason
}

// A mistake is the error of [LeftOut.Mistake].
type mistake struct{ error }

// Reserved are the first parts of paths, and so of ids, where something else is served.
var Reserved = []string{"runs", "skills"}

// maxDescriptors bounds the descriptors of a document, in bytes of all together.
const maxDescriptors = 128 << 20

// collection are the skills of one document or folder.
type collection struct {
	API
	document string
	size     int // bytes of the descriptors
}

// add adds the skill of an operation, or says why it is none.
func (c *collection) add(operation string, skill *Skill, err error) {
	if err == nil {
		if c.size += len(skill.text); c.size > maxDescriptors || len(c.Skills) == document.MaxSkills {
			err = fmt.Errorf("there are more than %d skills, or more than %d bytes of descriptors", document.MaxSkills, maxDescriptors)
		} else if why := document.UnlistedID(skill.ID); why != "" {
			err = errors.New(why)
		} else if first, _, more := strings.Cut(skill.ID, "/"); more && slices.Contains(Reserved, first) {
			err = fmt.Errorf("its id begins with %s/, where something else is served", first)
		}
	}
	if err != nil {
		_, isMistake := errors.AsType[mistake](err)
		c.LeftOut = append(c.LeftOut, LeftOut{Document: c.document, Operation: operation, Reason: err.Error(), Mistake: isMistake})
		return
	}
	skill.from.Document, skill.from.Operation = c.document, operation
	c.Skills = append(c.Skills, skill)
}

// Merge returns the skills of some documents in the order of their ids, and what is left out. Of skills with the same id, all are.
func Merge(documents []*API) (skills []*Skill, leftOut []LeftOut) {
	operations := map[string][]string{} // by id
	for _, d := range documents {
		skills, leftOut = append(skills, d.Skills...), append(leftOut, d.LeftOut...)
		for _, s := range d.Skills {
			operations[s.ID] = append(operations[s.ID], s.from.Operation)
		}
	}
	slices.SortStableFunc(skills, func(a, b *Skill) int { return cmp.Compare(a.ID, b.ID) })
	skills = slices.DeleteFunc(skills, func(s *Skill) bool {
		same, left := operations[s.ID], s.from
		if left.Published = left.Reason != "" && len(same) == 1; len(same) > 1 {
			left.Reason = fmt.Sprintf("%d have the id %s: %s", len(same), s.ID, strings.Join(same, ", "))
		}
		if left.Reason != "" {
			leftOut = append(leftOut, left)
		}
		return len(same) > 1
	})
	return skills, leftOut
}
