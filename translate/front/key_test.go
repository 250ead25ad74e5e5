package front_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

func FuzzKey(f *testing.F) {
	for _, s := range []string{`"a"`, ` "a\\"b\\\\" `, `a`, `"`, `"\`, `""`, `"a";b=1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := front.ParseKey([]string{line})
		if err != nil {
			return
		}
		escaped := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if key == "" || escaped != strings.Trim(line, " \t") {
			t.Errorf("%q was read as %q", line, key)
		}
	})
}
