package agentskills

import "github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"

// names are the names of skills. They depend on the tool names of all skills of the bridge, not on what a caller may see.
type names map[string]int // how many tools have a plain name

func newNames(tools []string) names {
	n := make(names, len(tools))
	for _, tool := range tools {
		n[skillfile.PlainName(tool)]++
	}
	return n
}

// of returns the name of the skill with a tool name: the plain one, or the hashed one if another skill has the plain one, too.
func (n names) of(tool string) string {
	plain := skillfile.PlainName(tool)
	if plain == "" || n[plain] > 1 {
		return skillfile.HashedName(tool, plain)
	}
	return plain
}
