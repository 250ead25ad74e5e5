package credentials

import (
	"slices"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// TestS368ManySkillsOfOneEndpoint: a list asks for each skill of a source whether others name another token endpoint, which costs as much as there are skills, and not
// the square of that.
func TestS368ManySkillsOfOneEndpoint(t *testing.T) {
	named := func(url string) *document.Auth { return &document.Auth{OAuth2: &document.OAuth2{TokenURL: url}} }
	c, n := new(userClient), new(namedEndpoints)
	auths := slices.Repeat([]*document.Auth{named("https://acme.example/token")}, 1000)
	looks := 0
	all := func() []*document.Auth {
		looks++
		return auths
	}
	for range auths {
		if n.differ(c, c.endpoint(auths[0]), all) {
			t.Fatal("they differ")
		}
	}
	if looks > len(auths)/2 { // one each second
		t.Errorf("all are looked at %d times", looks)
	}
	for _, others := range [][]*document.Auth{{named("https://acme.example/other")}, {auths[0], named("https://acme.example/other")}} {
		if !new(namedEndpoints).differ(c, c.endpoint(auths[0]), func() []*document.Auth { return others }) {
			t.Errorf("%d do not differ", len(others))
		}
	}
	if new(namedEndpoints).differ(c, c.endpoint(auths[0]), func() []*document.Auth { return nil }) {
		t.Error("none differ")
	}
}
