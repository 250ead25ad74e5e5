package runtoken_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

func TestSealedText(t *testing.T) {
	other := runtoken.NewKey(start)
	keys := &ring{keys: []runtoken.Key{testKey}}
	s := runtoken.New(keys, runtoken.Lifetime, nil)
	for _, text := range []string{"", "secret", strings.Repeat("s", 10_000)} {
		sealed, err := s.SealText(t.Context(), text, "ada", "task")
		if err != nil || text != "" && strings.Contains(sealed, text) {
			t.Fatalf("%q, %v", sealed, err)
		}
		if got, old, err := s.OpenText(t.Context(), sealed, "ada", "task"); got != text || old || err != nil {
			t.Errorf("%q, %t, %v", got, old, err)
		}
		for _, binding := range [][]string{nil, {"ada"}, {"ada", "task", ""}, {"adat", "ask"}, {"bob", "task"}} {
			if _, _, err := s.OpenText(t.Context(), sealed, binding...); !errors.Is(err, runtoken.ErrInvalid) {
				t.Errorf("%q: %v", binding, err)
			}
		}
		refuse(t, s, "a sealed text", sealed, "ada")
		keys.keys = []runtoken.Key{testKey, other}
		if got, old, err := s.OpenText(t.Context(), sealed, "ada", "task"); got != text || !old || err != nil {
			t.Errorf("with a newer key: %q, %t, %v", got, old, err)
		}
		keys.keys = []runtoken.Key{other}
		if _, _, err := s.OpenText(t.Context(), sealed, "ada", "task"); !errors.Is(err, runtoken.ErrInvalid) {
			t.Error("without the key:", err)
		}
		keys.keys = []runtoken.Key{testKey}
	}
	token := mustSeal(t, s, aRun, "ada")
	if _, _, err := s.OpenText(t.Context(), token, "ada"); !errors.Is(err, runtoken.ErrInvalid) {
		t.Error("a token:", err)
	}
	keys.err = errors.New("down")
	if _, err := s.SealText(t.Context(), "x"); !errors.Is(err, keys.err) {
		t.Error(err)
	}
	if _, err := s.SealText(t.Context(), strings.Repeat("s", 64<<10)); err == nil {
		t.Error("sealed a text that is too long")
	}
}

// FuzzOpenText opens texts that were never sealed.
func FuzzOpenText(f *testing.F) {
	s := runtoken.New(&ring{keys: []runtoken.Key{testKey}}, runtoken.Lifetime, nil)
	sealed, err := s.SealText(f.Context(), "secret", "ada")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add(sealed[1:])
	f.Fuzz(func(t *testing.T, text string) {
		if got, _, err := s.OpenText(t.Context(), text, "ada"); err == nil && text != sealed {
			t.Errorf("%q opens as %q", text, got)
		}
	})
}
