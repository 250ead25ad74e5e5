package cli

import "fmt"

// The documents of a minimal provider with one skill.
const (
	exampleIndex = `{
  "protocol": {"version": "1.0.0"},
  "provider": {"name": "Example"},
  "skills": [{
    "id": "example/shout", "name": "Shout", "version": "1.0.0", "capability_type": "api", "access": "public",
    "description": "Writes a text in capitals.",
    "descriptor_url": "https://skills.example.com/shout.json"
  }]
}
`
	exampleDescriptor = `{
  "protocol": {"version": "1.0.0"},
  "provider": {"name": "Example"},
  "id": "example/shout", "name": "Shout", "version": "1.0.0", "capability_type": "api", "access": "public",
  "description": "Writes a text in capitals.",
  "endpoint": {"url": "https://skills.example.com/shout", "method": "POST"},
  "inputs": [{"name": "text", "type": "string", "description": "The text.", "required": true}],
  "output": {"content_type": "application/json"},
  "auth": {"type": "none"}
}
`
)

// Example writes a minimal index and the descriptor that it lists, and says on standard error where they belong.
func (s *Screen) Example() int {
	s.note("The index, for https://skills.example.com/.well-known/skill-sharing, and the descriptor, for https://skills.example.com/shout.json, as application/json:")
	fmt.Fprint(s.Out, exampleIndex+exampleDescriptor)
	return OK
}
