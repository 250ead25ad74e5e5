package bridge

import (
	"cmp"
	"encoding/json" // Caddy's config is made for encoding/json
	"math"
	"reflect"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// effective is all that a handler's options come to.
type effective struct {
	config          translate.Config
	limits          Limits
	principal       string
	requests, batch int64
	keep            [3]any // of run tokens, and runs in all and of a principal
	answer, answers int64  // of a batch, and of all
	shared, learned any    // from pools, with the settings as their keys: what is the same has the same settings
}

// effectiveOf loads a handler with some lines of a Caddyfile. What it takes from pools
// stays there until the test ends.
func effectiveOf(t *testing.T, lines string) (effective, error) {
	t.Helper()
	h := new(Handler)
	if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("skill_bridge {\n" + lines + "\n}")); err != nil {
		return effective{}, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	h = mustLoad(t, string(text))
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	config, _, err := h.config(ctx, observe.NewObserver(h.logger, false, vocabularies))
	if err != nil {
		t.Fatal(err)
	}
	config.Observer, config.Stop = nil, nil
	runs, own := h.Runs()
	e := effective{
		config: *config, limits: h.limits(), principal: h.placeholder(),
		requests: h.server.MaxRequestSize, batch: int64(h.server.Profile.MaxBatch), answer: h.server.MaxAnswerSize, answers: h.server.MaxAnswers,
		shared: h.shared, keep: [3]any{h.tokens.Lifetime(), runs, own},
	}
	if h.timings != nil {
		e.learned = h.timings.Store
	}
	return e, nil
}

// same reports whether two handlers come to the same. Of limits, those whose defaults
// belong to others (translate.Config) are 0 in the standard.
func (standard effective) same(other effective) bool {
	a, b := reflect.ValueOf(&standard.limits).Elem(), reflect.ValueOf(&other.limits).Elem()
	for i := range a.NumField() {
		if a.Field(i).IsZero() {
			b.Field(i).SetZero()
		}
	}
	return reflect.DeepEqual(standard, other)
}

// TestDocumentedDefaults: the defaults in the manual's list of options are those of the
// code. Each is written into a Caddyfile, which must change nothing; another value must.
func TestDocumentedDefaults(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64)) // which the default of runs depends on
	list := manuals.Listing(t, manuals.Configuration, "skill_bridge")
	standard, err := effectiveOf(t, "")
	if err != nil {
		t.Fatal(err)
	}
	// Defaults that are words, and what they come to.
	words := map[string]string{
		"limits output_size": "10MiB", "limits runs": "20000 10000", "limits memory": "1GiB", "timeout": "25s 10m",
	}
	// Those that are not values of the option.
	others := map[string]bool{"callers_jwt principal": true, "callers_jwt prefix": true, "callers_jwt scopes": true, "provider namespace": true, "agent_skills url": true, "allow_networks": true, "webhooks allow_networks": true, "webhooks secrets": true, "name": true, "store": true, "seal_key": true}
	elsewhere := map[string]bool{"a2a": true, "mcp": true, "wait": true, "rpc": true, "health": true} // TestDocumentedDefaults of module/fronts
	phrase := regexp.MustCompile(`\bdefault:? ([^;,()]+)`)
	number := regexp.MustCompile(`\d+`)
	block, checked := "", 0
	for line := range strings.Lines(list) {
		option, comment, _ := strings.Cut(strings.TrimSpace(line), "#")
		fields := strings.Fields(option)
		if len(fields) == 0 {
			continue
		}
		switch {
		case fields[0] == "}":
			block = ""
			continue
		case fields[len(fields)-1] == "{" && fields[0] != "skill_bridge":
			block = fields[0]
			continue
		}
		path := strings.TrimSpace(block + " " + fields[0])
		if elsewhere[block] || elsewhere[fields[0]] {
			continue
		}
		found := phrase.FindStringSubmatch(comment)
		if found == nil || others[path] {
			continue
		}
		value := strings.TrimSpace(found[1])
		if word, isWord := words[path]; isWord {
			value = word
		}
		write := func(value string) string {
			line := fields[0] + " " + value
			if block != "" {
				line = block + " {\n" + line + "\n}"
			}
			return line
		}
		with, err := effectiveOf(t, write(value))
		if err != nil || !standard.same(with) {
			t.Errorf("%s: the manual says that the default is %q; but the code's is another (%v)", path, value, err)
		}
		changed := value + "x"
		if digits := number.FindString(value); digits != "" {
			n, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatal(err)
			}
			changed = strings.Replace(value, digits, strconv.Itoa(cmp.Or(n-1, n+1)), 1)
		} else if value == "normal" {
			changed = "low"
		} else if strings.HasPrefix(value, "{") {
			changed = "{http.auth.user.name}"
		}
		if with, err := effectiveOf(t, write(changed)); err != nil || standard.same(with) {
			t.Errorf("%s: %q makes no difference to the default, so that the test does not see what it is (%v)", path, changed, err)
		}
		checked++
	}
	if checked < 20 {
		t.Errorf("only %d defaults were found", checked)
	}
	// The defaults that stand behind the others.
	for path, want := range map[string]string{
		"runs": "default 20000 (fewer where memory is limited), per provider half", "output_size": "default: max_response_size",
		"timeout": "default 25s, max 10m",
	} {
		if !regexp.MustCompile(`(?m)^\s*` + path + ` .*` + regexp.QuoteMeta(want)).MatchString(list) {
			t.Errorf("%s: the manual does not say any more %q, which the test takes for granted", path, want)
		}
	}
}
