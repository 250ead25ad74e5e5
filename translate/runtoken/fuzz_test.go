package runtoken_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// FuzzOpen: only a text that was sealed is a token, and no other text stands for the same
// bytes.
func FuzzOpen(f *testing.F) {
	s, _, _ := newSealer()
	good := encrypted(f, written(start.Add(time.Hour), block, "acme", "acme/forecast", "1.2.3", "exec-42"), principal)
	for _, token := range []string{good, good[:60], good + "A", good + "\n", "", "AgECAwQ", strings.Repeat("A", runtoken.MaxToken), strings.Repeat("é", 100)} {
		f.Add(token, principal)
	}
	f.Add(good, "")
	f.Fuzz(func(t *testing.T, token, who string) {
		ref, err := s.Open(t.Context(), token, blocks, who)
		switch {
		case token == good && who == principal:
			if err != nil || ref != aRun {
				t.Errorf("%+v, error %v", ref, err)
			}
		case err != runtoken.ErrInvalid || ref != (run.Ref{}):
			t.Errorf("%q for %q: %+v, error %v", token, who, ref, err)
		}
	})
}

// FuzzPlaintext opens tokens of any plaintext, which only a holder of the key can make.
func FuzzPlaintext(f *testing.F) {
	s, _, now := newSealer()
	good := written(start.Add(time.Hour), block, "acme", "acme/forecast", "1.2.3", "exec-42")
	f.Add(good)
	f.Add(good[:30])
	f.Add(append(good, 0))
	f.Fuzz(func(t *testing.T, plain []byte) {
		if len(plain) > 2900 {
			return
		}
		ref, err := s.Open(t.Context(), encrypted(t, plain, principal), blocks, principal)
		if err != nil {
			if err != runtoken.ErrInvalid || ref != (run.Ref{}) {
				t.Errorf("%q: %+v, error %v", plain, ref, err)
			}
			return
		}
		// All bytes of the plaintext were read once: it has the texts and parts of fixed size.
		n := len(ref.Source) + len(ref.SkillID) + len(ref.Version) + len(ref.ExecutionID) + 4*2 + 40
		if ref.Kept != "" {
			n += 2 + len(ref.Kept)
		}
		if n != len(plain) || ref.Source != aRun.Source {
			t.Errorf("%q: %+v at %v", plain, ref, now.Time)
		}
	})
}

// FuzzRoundTrip: a run is opened as it was sealed, or sealing fails.
func FuzzRoundTrip(f *testing.F) {
	s, _, _ := newSealer()
	f.Add("acme", "acme/forecast", "1.2.3", "exec-42", "", principal)
	f.Add("acme", "acme/forecast", "1.2.3", "exec-42", "0190b0f1-1111-7000-8000-000000000000", principal)
	f.Add("", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, source, skill, version, execution, kept, who string) {
		ref := run.Ref{Source: source, SkillID: skill, Version: version, ExecutionID: execution, Kept: kept}
		token, err := s.Seal(t.Context(), ref, block, who)
		if err == runtoken.ErrUnsealable {
			return
		}
		got, err := s.Open(t.Context(), token, func(string) runtoken.Block { return block }, who)
		if err != nil || got != ref {
			t.Errorf("%+v became %+v, error %v", ref, got, err)
		}
	})
}
