package credential

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Group removes the secrets of several credentials, and tokens obtained with them, from what providers say. It orders the secrets once for
// as long as they are the same. It is safe for concurrent use.
type Group struct {
	members []Credentials
	// ordered returns what was made of the secrets last. It is a function so that printing the group does not print them.
	ordered atomic.Pointer[func() *orderedSecrets]
}

// NewGroup returns a group. Any of the credentials may be nil.
func NewGroup(credentials ...Credentials) *Group {
	return &Group{members: slices.DeleteFunc(slices.Clone(credentials), func(c Credentials) bool { return c == nil })}
}

// orderedSecrets are the secrets of a group, longer ones first, because one may be a part of another.
type orderedSecrets struct {
	of  []string // what the credentials listed
	all []string
	// long are those of at least MinOutputSecret bytes.
	long []string
}

// secrets returns the secrets, which must not be changed.
func (g *Group) secrets() *orderedSecrets {
	if known := g.ordered.Load(); known != nil {
		if last := (*known)(); g.have(last.of) {
			return last
		}
	}
	var listed []string
	for _, c := range g.members {
		listed = append(listed, c.Secrets()...)
	}
	last := &orderedSecrets{of: listed, all: slices.Clone(listed)}
	for _, s := range listed {
		if strings.IndexFunc(s, isQuoted) < 0 {
			continue
		}
		if quoted := strconv.Quote(s); quoted != `"`+s+`"` { // package net/http quotes in this way what it can't read
			last.all = append(last.all, quoted[1:len(quoted)-1])
		}
	}
	last.all = slices.DeleteFunc(last.all, func(s string) bool { return s == "" })
	slices.SortFunc(last.all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	short := slices.IndexFunc(last.all, func(s string) bool { return len(s) < MinOutputSecret })
	if last.long = last.all; short >= 0 {
		last.long = last.all[:short:short]
	}
	g.ordered.Store(new(func() *orderedSecrets { return last }))
	return last
}

// have reports whether the credentials list these secrets.
func (g *Group) have(listed []string) bool {
	for _, c := range g.members {
		own := c.Secrets()
		if len(own) > len(listed) || !slices.Equal(own, listed[:len(own)]) {
			return false
		}
		listed = listed[len(own):]
	}
	return len(listed) == 0
}

// HasLong reports whether there are secrets of at least [MinOutputSecret] bytes. Shorter ones may occur in other data by chance.
func (g *Group) HasLong() bool { return len(g.secrets().long) > 0 }

// signaturesIn returns what signers among the credentials have sent lately and occurs in the texts.
func signaturesIn[T ~string | ~[]byte](g *Group, texts ...T) (found []string) {
	for _, c := range g.members {
		if signer, ok := c.(Signer); ok {
			for _, text := range texts {
				found = append(found, signer.Sent([]byte(text))...)
				for s := range escapedStrings([]byte(text)) { // it may be JSON
					found = append(found, signer.Sent(s)...)
				}
			}
		}
	}
	return found
}

// ScrubText removes all secrets from a text for the log. It ignores the case of letters, because a document may use a secret as a host
// name, which is shown in lower case.
func (g *Group) ScrubText(text string) string {
	r := redactor{signatures: signaturesIn(g, text)}
	for _, secret := range g.secrets().all {
		text = replace(text, secret, true)
	}
	return r.text(text)
}

// ScrubFailure removes all secrets from all texts of a failure, since providers may repeat them in their answers. It shortens texts only
// after that, because a secret that was cut could not be found.
func (g *Group) ScrubFailure(e *run.Failure) {
	texts := make([]string, 0, 8)
	if e.Cause != nil {
		texts = append(texts, e.Cause.Error())
	}
	seen := *e
	seen.Rewrite(func(text string) string {
		texts = append(texts, text)
		return text
	}, func(v jsontext.Value) jsontext.Value {
		texts = append(texts, string(v))
		return v
	})
	r := redactor{secrets: g.secrets().all, signatures: signaturesIn(g, texts...)}
	e.Rewrite(r.text, r.json)
	if e.Cause != nil {
		if text := r.text(texts[0]); text != texts[0] {
			e.Cause = errors.New(text)
		}
	}
	e.Message = safetext.Clip(e.Message, maxErrorMessage)
	if said := e.ProviderSaid(); len(said.Code) > maxErrorCode {
		said.Code = safetext.Clip(said.Code, maxErrorCode)
		e.Provider = &said
	}
}

// ScrubOutput removes long secrets from the output of a run. The result is valid JSON. An output without secrets is returned unchanged.
func (g *Group) ScrubOutput(output jsontext.Value) jsontext.Value {
	r := redactor{secrets: g.secrets().long, signatures: signaturesIn(g, output)}
	return r.json(output)
}

// RepeatedIn reports whether a JSON text contains a long secret.
func (g *Group) RepeatedIn(text []byte) bool {
	return len(signaturesIn(g, text)) > 0 || RepeatsAny(text, g.secrets().long)
}
