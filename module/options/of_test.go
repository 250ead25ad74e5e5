package options_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

type kind string

type config struct {
	Embedded

	Place  string      `json:"place,omitempty" option:"-"`
	Kind   kind        `json:"kind,omitempty"`
	Block  *block      `json:"block,omitempty"`
	Own    *own        `json:"own,omitempty"`
	Ports  map[int]int `json:"ports,omitempty"`
	Secret string      `json:"-"`

	hidden string
}

// Embedded has options of what embeds it.
type Embedded struct {
	Names []string `json:"names,omitempty"`
}

type block struct {
	Size *size `json:"size,omitempty"`
}

type size struct{ Least, Most int }

func (s *size) Read(r *options.Reader) error {
	return r.Args("size", "two numbers", 2, &s.Least, &s.Most)
}

type own struct {
	Word string `json:"word,omitempty"`
}

func (o *own) Targets(r *options.Reader) options.Targets {
	return r.Of(o, options.Targets{"word": nil, "term": &o.Word})
}

func read(c *config, text string) error {
	r := options.NewReader(caddyfile.NewTestDispenser("test {\n" + text + "\n}"))
	return r.Block("test", "", r.Of(c, nil))
}

func TestOptionsOfFields(t *testing.T) {
	got, want := &config{hidden: "as it is"}, &config{
		Embedded: Embedded{[]string{"a", "b"}}, Kind: "k", Block: &block{&size{1, 2}}, Own: &own{"w"}, hidden: "as it is",
	}
	if err := read(got, "names a b\nkind k\nblock {\nsize 1 2\n}\nown {\nterm w\n}"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, not %+v; the error is %v", got, want, err)
	}
}

func TestFieldsThatAreNoOptions(t *testing.T) {
	r := options.NewReader(caddyfile.NewTestDispenser("test"))
	got := slices.Sorted(maps.Keys(r.Of(new(config), options.Targets{"own": nil, "further": new(string)})))
	if want := []string{"block", "further", "kind", "names"}; !slices.Equal(got, want) {
		t.Errorf("the options are %q, not %q", got, want)
	}
	for _, text := range []string{"place p", "ports 1", "Secret s", "hidden h", "own {\nword w\n}", "own {\nterm\n}", "block {\nsize 1\n}", "block b"} {
		if err := read(new(config), text); err == nil || !strings.Contains(err.Error(), "Testfile:") {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}
