package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli/lint"
)

const plainDescriptor = `{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"id":"acme/a","name":"A","version":"1.0.0","capability_type":"api",
	"description":"Does a.","endpoint":{"url":"https://acme.example/a","method":"POST"},"inputs":[
	{"name":"n","type":"integer","description":"N.","required":false,"default":1}],"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"public"}`

// TestWarnings: what the protocol allows and is most likely a mistake is a warning, at its place; with Strict, the document is not valid.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ old, replaced, path, message string }{
		{`"output":{`, `"output":{"schema":{"type":"objekt"},`, "/output/schema", "is no JSON Schema that bridges can apply"},
		{`"type":"integer"`, `"type":"int"`, "/inputs/0/type", "is no type of JSON Schema"},
		{`"default":1`, `"default":"1"`, "/inputs/0/default", "must be an integer, not a string"},
		{`"default":1`, `"schema":{"minimum":3},"default":1`, "/inputs/0/default", "does not fit the input"},
		{`"default":1`, `"discription":"N."`, "/inputs/0/discription", "did you mean description?"},
		{`"access":"public"`, `"access":"public","tag":["a"]`, "/tag", "did you mean tags?"},
		{`"access":"public"`, `"access":"public","status_url":"https://acme.example/{execution_id}"`, "/status_url", "did you mean /endpoint/status_url?"},
		{`"method":"POST"`, `"method":"POST","status_url":"https://acme.example/status"`, "/endpoint/status_url", "has no {execution_id}"},
		{`"url":"https://acme.example/a"`, `"url":"https://acme.example/{petId}/{petId}/{x}?y={y}&z={z}"`, "/endpoint/url", "has {petId}, {x}, {y} and others, but bridges replace only {execution_id}, in status_url and result_url: it is sent as %7BpetId%7D"},
		{`"url":"https://acme.example/a"`, `"url":"https://acme.example/{execution_id}"`, "/endpoint/url", "sent as %7Bexecution_id%7D"},
		{`"url":"https://acme.example/a"`, `"url":"https://acme.example/pets{?page,limit}"`, "/endpoint/url", "has {?page,limit}, but"},
		{`"method":"POST"`, `"method":"POST","status_url":"https://acme.example/{tenant}/{execution_id}"`, "/endpoint/status_url", "has {tenant}, but"},
		{`"method":"POST"`, `"method":"POST","result_url":"https://acme.example/{execution_id}?of={tenant}"`, "/endpoint/result_url", "has {tenant}, but"},
		{`"method":"POST"},"inputs":[`, `"method":"GET"},"inputs":[{"name":"list","type":"array","description":"L.","required":false},{"name":"any","type":"string","description":"A.","required":false,"schema":{"type":["string","object"]}},`, "/endpoint/method", "is GET: inputs are the query; the answer must be an InvocationResponse. Objects and arrays are sent as JSON texts: list, any"},
		{`"method":"POST"},"inputs":[`, `"method":"DELETE"},"inputs":[{"name":"o","type":"object","description":"O.","required":true},`, "/endpoint/method", "is DELETE: inputs are the query"},
		{`"method":"POST"`, `"method":"POST","content_type":"text/xml"`, "/endpoint/content_type", "is valid, but bridges can't call the skill: they send only JSON"},
		{`"url":"https://acme.example/a"`, `"url":"http://acme.example/a"`, "/endpoint/url", "is plain HTTP: bridges refuse it"},
		{`"url":"https://acme.example/a"`, `"url":"https://127.0.0.1/a"`, "/endpoint/url", "is at 127.0.0.1:443, which is not public"},
		{`"url":"https://acme.example/a"`, `"url":"https://10.1.2.3:8443/a"`, "/endpoint/url", "is at 10.1.2.3:8443, which is not public"},
		{`"name":"Acme"`, `"name":" "`, "/provider/name", "is empty"},
		{`"description":"Does a."`, `"description":""`, "/description", "is empty"},
		{`"name":"n"`, `"name":""`, "/inputs/0/name", "is empty"},
		{`"version":"1.0.0"}`, `"version":"1.0.0","changelog_uri":"https://acme.example/"}`, "/protocol/changelog_uri", "did you mean changelog_url?"},
		{`{"type":"none"}`, `{"type":"custom","custom":{"instructions":"Sign.","parameters":[{"name":"k","type":"string","description":"K.","required":true,"defaults":1}]}}`, "/auth/custom/parameters/0/defaults", "did you mean default?"},
		{`{"type":"none"}`, `{"type":"oauth2","oauth2":{"authorization_url":"https://acme.example/","token_url":"https://10.0.0.1/","scopes":{}}}`, "/auth/oauth2/token_url", "is not public"},
	} {
		text := []byte(strings.Replace(plainDescriptor, c.old, c.replaced, 1))
		v := (&Validator{}).validate(t.Context(), text, nil)
		if !v.Valid || len(v.Warnings) != 1 || v.Warnings[0].Path != c.path || !strings.Contains(v.Warnings[0].Message, c.message) {
			t.Errorf("%s: %+v", c.replaced, v)
		}
		if v := (&Validator{Strict: true}).validate(t.Context(), text, nil); v.Valid {
			t.Errorf("%s: valid, though strict", c.replaced)
		}
	}
	secret := strings.NewReplacer(`"type":"none"`, `"type":"api_key"`, "https://acme.example/a", "http://acme.example/a").Replace(plainDescriptor)
	if v := (&Validator{}).validate(t.Context(), []byte(secret), nil); len(v.Warnings) != 2 || !strings.Contains(v.Warnings[1].Message, "carry a credential") {
		t.Errorf("%+v", v)
	}
	for _, fine := range []string{
		plainDescriptor, strings.Replace(plainDescriptor, `"POST"`, `"GET"`, 1), strings.Replace(plainDescriptor, `"POST"`, `"GET","content_type":"text/plain"`, 1),
		strings.Replace(plainDescriptor, `"url":"https://acme.example/a"`, `"url":"https://acme.example/a%7Bb%7D#{c}","status_url":"https://acme.example/{execution_id}?r={execution_id}"`, 1),
	} {
		if v := (&Validator{Strict: true}).validate(t.Context(), []byte(fine), nil); !v.Valid {
			t.Errorf("%s: %+v", fine, v)
		}
	}
}

// TestAllowedAddresses: there is no warning about what the flags allow, and one about each other address.
func TestAllowedAddresses(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	const notPublic, plain, secret = "which is not public", "is plain HTTP: bridges refuse it", "carry a credential"
	for _, c := range []struct {
		url, auth string
		allowed   lint.Allowed
		want      []string
	}{
		{"http://127.0.0.1/a", "none", lint.Allowed{HTTP: true, Networks: loopback}, nil},
		{"http://127.0.0.1/a", "api_key", lint.Allowed{HTTP: true, Networks: loopback}, nil},
		{"http://[::ffff:127.0.0.1]/a", "none", lint.Allowed{HTTP: true, Networks: loopback}, nil},
		{"http://localhost/a", "none", lint.Allowed{HTTP: true, Networks: loopback}, nil},
		{"http://localhost/a", "none", lint.Allowed{HTTP: true}, []string{notPublic}},
		{"http://127.0.0.1/a", "none", lint.Allowed{Networks: loopback}, []string{plain}},
		{"http://127.0.0.1/a", "none", lint.Allowed{HTTP: true}, []string{notPublic}},
		{"http://10.0.0.1/a", "none", lint.Allowed{HTTP: true, Networks: loopback}, []string{notPublic}},
		{"http://10.0.0.1/a", "api_key", lint.Allowed{HTTP: true, Networks: loopback}, []string{notPublic, secret}},
		{"http://acme.example/a", "none", lint.Allowed{HTTP: true, Networks: loopback}, nil},
		{"http://acme.example/a", "api_key", lint.Allowed{HTTP: true, Networks: loopback}, []string{secret}},
		{"https://acme.example/a", "api_key", lint.Allowed{}, nil},
	} {
		text := strings.NewReplacer(`"type":"none"`, `"type":"`+c.auth+`"`, "https://acme.example/a", c.url).Replace(plainDescriptor)
		v := (&Validator{Allowed: c.allowed}).validate(t.Context(), []byte(text), nil)
		got := len(v.Warnings) == len(c.want)
		for i := range min(len(c.want), len(v.Warnings)) {
			got = got && strings.Contains(v.Warnings[i].Message, c.want[i])
		}
		if !got || !v.Valid {
			t.Errorf("%s with %+v: %s", c.url, c.allowed, messages(v.Warnings))
		}
	}
}

// TestWarningsAreBounded: a document with any number of misspelt members has a few warnings.
func TestWarningsAreBounded(t *testing.T) {
	var more strings.Builder
	for i := range 5000 {
		more.WriteString(`"tag` + strings.Repeat("s", i%3) + strings.Repeat("x", i/3) + `":1,`)
	}
	text := strings.Replace(plainDescriptor, `"access"`, more.String()+`"access"`, 1)
	text = strings.Replace(text, `"tags":1,`, "", 1)
	if v := (&Validator{}).validate(t.Context(), []byte(text), nil); len(v.Warnings) > 50 {
		t.Errorf("%d warnings", len(v.Warnings))
	}
}

// TestFollowIndex: of an index at a URL, the descriptors are validated, too, and held against their entries.
func TestFollowIndex(t *testing.T) {
	entry := func(id, version string) string {
		return `{"id":"acme/` + id + `","name":"A","capability_type":"api","description":"Does a.","descriptor_url":"https://acme.example/` + id + `","access":"public","version":"` + version + `"}`
	}
	index := `{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[` + entry("a", "1.0.0") + "," + entry("b", "1.0.0") + "," + entry("c", "2.0.0") + "," + entry("d", "1.0.0") + "," + entry("e", "1.0.0") + `]}`
	v := Validator{Fetch: func(_ context.Context, url string) ([]byte, http.Header, error) {
		id := url[len(url)-1:]
		text := strings.Replace(plainDescriptor, "acme/a", "acme/"+id, 1)
		switch id {
		case "b":
			text = strings.Replace(text, "acme/b", "acme/other", 1)
		case "d":
			return nil, nil, errors.New("it does not answer")
		case "e":
			text = strings.Replace(text, `"endpoint"`, `"end"`, 1)
		}
		return []byte(text), http.Header{"Content-Type": {"application/json"}}, nil
	}}
	var out bytes.Buffer
	s := &Screen{Out: bufio.NewWriter(&out)}
	if status := s.Validate(t.Context(), []byte(index), nil, v); status != Invalid {
		t.Errorf("status %d", status)
	}
	if err := s.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `valid index
acme/b is invalid: 1 fault
  https://acme.example/b
  /id: differs from the id in the index, so that the skill can't be called
      expected: "acme/b"
      actual:   "acme/other"
acme/c has 1 warning
  /version: differs from the index
      expected: "2.0.0"
      actual:   "1.0.0"
acme/d can't be read: it does not answer
  https://acme.example/d
acme/e is invalid: 1 fault
  https://acme.example/e
`
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "2 of 5 descriptors valid\n") {
		t.Error(got)
	}
}
