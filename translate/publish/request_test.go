package publish_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// echo is a real server that says what it got.
type echo struct {
	*httptest.Server
	got  *http.Request
	body []byte
}

func newEcho(tb testing.TB) *echo {
	tb.Helper()
	e := new(echo)
	e.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		e.got = r
		e.body, _ = io.ReadAll(r.Body)
	}))
	e.Client().Transport.(*http.Transport).DisableCompression = true //nolint:forcetypeassert // as documented
	tb.Cleanup(e.Close)
	return e
}

// send sends a request to the server as a reverse proxy does.
func (e *echo) send(tb testing.TB, r *http.Request) {
	tb.Helper()
	out := r.Clone(tb.Context())
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = "http", strings.TrimPrefix(e.URL, "http://")
	response, err := e.Client().Transport.RoundTrip(out)
	if err != nil {
		tb.Fatal(err)
	}
	_ = response.Body.Close()
}

// request returns the request for arguments, which must be good.
func request(tb testing.TB, o *publish.Operation, inputs string, caller http.Header) *http.Request {
	tb.Helper()
	r, failure := o.Request(tb.Context(), jsontext.Value(inputs), caller)
	if failure != nil {
		tb.Fatal(failure)
	}
	return r
}

func parameter(in, style string, explode bool) publish.Parameter {
	return publish.Parameter{Name: "x", In: in, Style: style, Explode: explode}
}

// The examples are those of OpenAPI 3.1 (Style Examples), and what people send.
func TestParameters(t *testing.T) {
	server := newEcho(t)
	const array, object = `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`
	for _, c := range []struct {
		in, style string
		explode   bool
		value     string
		want      string // the path after /a/, the query, the header or the cookies
	}{
		{"path", "simple", false, `"blue"`, "blue"},
		{"path", "simple", false, array, "blue,black,brown"},
		{"path", "simple", false, object, "R,100,G,200,B,150"},
		{"path", "simple", true, object, "R=100,G=200,B=150"},
		{"path", "simple", false, `"a/b"`, "a%2Fb"},
		{"path", "simple", false, `"a b+c?d#e%20ä;,&="`, "a%20b%2Bc%3Fd%23e%2520%C3%A4%3B%2C%26%3D"},
		{"path", "simple", false, `"%2e%2e"`, "%252e%252e"},
		{"path", "simple", false, `"%2e%2e%2fadmin"`, "%252e%252e%252fadmin"},
		{"path", "simple", false, `"..."`, "..."},
		{"path", "simple", false, `"a..b"`, "a..b"},
		{"path", "simple", false, `"{x}"`, "%7Bx%7D"},
		{"path", "simple", false, `123456789012345678901234567890.10`, "123456789012345678901234567890.10"},
		{"path", "simple", false, `true`, "true"},
		{"query", "form", true, `"blue"`, "x=blue"},
		{"query", "form", true, `""`, "x="},
		{"query", "form", true, `null`, ""},
		{"query", "form", true, array, "x=blue&x=black&x=brown"},
		{"query", "form", false, array, "x=blue,black,brown"},
		{"query", "form", false, `["a,b",null,"c"]`, "x=a%2Cb,c"},
		{"query", "spaceDelimited", false, `["a b","c"]`, "x=a%20b%20c"},
		{"query", "spaceDelimited", true, array, "x=blue&x=black&x=brown"},
		{"query", "pipeDelimited", false, object, "x=R%7C100%7CG%7C200%7CB%7C150"},
		{"query", "tabDelimited", false, `["a|b","c"]`, "x=a%7Cb%09c"},
		{"query", "form", true, `[]`, ""},
		{"query", "form", false, `[]`, ""},
		{"query", "form", false, object, "x=R,100,G,200,B,150"},
		{"query", "form", true, object, "R=100&G=200&B=150"},
		{"query", "form", true, `[{"a": [1, 2]}]`, "x=%7B%22a%22%3A%5B1%2C2%5D%7D"},
		{"query", "deepObject", true, object, "x%5BR%5D=100&x%5BG%5D=200&x%5BB%5D=150"},
		{"query", "deepObject", true, `{"a":{"b":[1,2]},"c":[{"d":null,"e":true}]}`, "x%5Ba%5D%5Bb%5D%5B%5D=1&x%5Ba%5D%5Bb%5D%5B%5D=2&x%5Bc%5D%5B0%5D%5Be%5D=true"},
		{"query", "form", true, `"a&b=c#d\r\n+ %41;"`, "x=a%26b%3Dc%23d%0D%0A%2B%20%2541%3B"},
		{"header", "simple", false, `"a b, ä"`, "a b, ä"},
		{"header", "simple", false, array, "blue,black,brown"},
		{"header", "simple", true, object, "R=100,G=200,B=150"},
		{"cookie", "form", true, `"a;b=c, \"d\"\\%"`, "x=a%3Bb=c%2C%20%22d%22%5C%25"},
		{"cookie", "form", false, `["a,b","c"]`, "x=a%2Cb,c"},
		{"cookie", "form", true, object, "R=100; G=200; B=150"},
	} {
		o := &publish.Operation{Method: "GET", Path: "/a", Parameters: []publish.Parameter{parameter(c.in, c.style, c.explode)}}
		if c.in == "path" {
			o.Path = "/a/{x}"
		}
		server.send(t, request(t, o, `{"x":`+c.value+`}`, nil))
		got := map[string]string{
			"path": strings.TrimPrefix(server.got.URL.EscapedPath(), "/a/"), "query": server.got.URL.RawQuery,
			"header": server.got.Header.Get("X"), "cookie": server.got.Header.Get("Cookie"),
		}[c.in]
		if got != c.want {
			t.Errorf("%s %s explode=%t %s: %s instead of %s", c.in, c.style, c.explode, c.value, got, c.want)
		}
	}
}

func TestParametersOfOtherForms(t *testing.T) {
	server := newEcho(t)
	o := &publish.Operation{
		Method: "GET", Path: "/caf%C3%A9/{id}.{format}", Accept: []string{"application/json", "text/plain"},
		Parameters: []publish.Parameter{
			{Name: "id", In: "path", Style: "simple"},
			{Name: "format", In: "path", Style: "simple"},
			{Name: "$where", In: "query", Style: "form"},
			{Name: "filter", In: "query", JSON: true},
			{Name: "text", In: "query", JSON: true},
			{Name: "none", In: "query", Style: "form"},
			{Name: "if-match", In: "header", Style: "simple"},
			{Name: "X-Key", In: "header", Style: "simple"},
		},
		Credentials: []string{"X-Key"},
	}
	caller := http.Header{"X-Key": {"secret"}, "Authorization": {"Bearer other"}, "Cookie": {"a=b"}, "Traceparent": {"00-1-1-01"}, "Accept-Encoding": {"gzip"}, "Idempotency-Key": {"k"}}
	r := request(t, o, `{"$where":"a:b/c?d&e=f#g;h+i","format":"json","id":"7","filter":{ "a" : [1, "\u00e4"] },"text":"t","if-match":"\"1\"","X-Key":"mine"}`, caller)
	if r.RequestURI != "/caf%C3%A9/7.json?%24where=a%3Ab%2Fc%3Fd%26e%3Df%23g%3Bh%2Bi&filter=%7B%22a%22%3A%5B1%2C%22%5Cu00e4%22%5D%7D&text=%22t%22" {
		t.Error(r.RequestURI)
	}
	server.send(t, r)
	want := http.Header{
		"Accept": {"application/json, text/plain"}, "If-Match": {`"1"`}, "X-Key": {"secret"}, "Traceparent": {"00-1-1-01"}, "Idempotency-Key": {"k"},
		"User-Agent": {"Go-http-client/1.1"},
	}
	if !maps.EqualFunc(server.got.Header, want, slices.Equal) {
		t.Error(server.got.Header)
	}
	if where := server.got.URL.Query().Get("$where"); where != "a:b/c?d&e=f#g;h+i" {
		t.Error(where)
	}
}

// The keys of an API in cookies arrive as the caller has sent them, in one field with the cookies that are inputs.
func TestCookieKeys(t *testing.T) {
	o := &publish.Operation{
		Method: "GET", Path: "/a", Parameters: []publish.Parameter{{Name: "x", In: "cookie", Style: "form"}},
		Credentials: []string{"Cookie"}, Secrets: []string{"cookie sid", "cookie csrf"},
	}
	for _, c := range []struct {
		inputs        string
		cookies, want []string
	}{
		{`{}`, []string{"sid=1; login=2; csrf=3"}, []string{"sid=1; csrf=3"}},
		{`{"x":"4"}`, []string{"sid=1;csrf=3", "sid2=5; csrf=6"}, []string{"sid=1; csrf=3; csrf=6; x=4"}},
		{`{}`, []string{`sid={"id":1}; csrf=a b,ü`}, []string{`sid={"id":1}; csrf=a b,ü`}},
		{`{}`, []string{`sid="a"; csrf`}, []string{`sid="a"; csrf`}},
		{`{"x":"4"}`, []string{"login=2; ;"}, []string{"x=4"}},
		{`{}`, []string{"login=2"}, nil},
	} {
		if got := request(t, o, c.inputs, http.Header{"Cookie": c.cookies}).Header["Cookie"]; !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %q, want %q", c.inputs, c.cookies, got, c.want)
		}
	}
}

// Values that could leave their place are refused, and the failure names the input.
func TestRefusedArguments(t *testing.T) {
	parameters := map[string]publish.Parameter{}
	for _, in := range []string{"path", "query", "header", "cookie"} {
		parameters[in] = parameter(in, map[string]string{"path": "simple", "query": "form", "header": "simple", "cookie": "form"}[in], true)
	}
	parameters["deep cookie"] = parameter("cookie", "deepObject", true)
	for _, c := range []struct{ in, inputs, reason string }{
		{"path", `{}`, "required"},
		{"path", `{"x":""}`, "schema"},
		{"path", `{"x":null}`, "schema"},
		{"path", `{"x":[]}`, "schema"},
		{"path", `{"x":["a",""]}`, "schema"},
		{"path", `{"x":"."}`, "schema"},
		{"path", `{"x":".."}`, "schema"},
		{"path", `{"x":[".."]}`, "schema"},
		{"path", `{"x":"../admin"}`, "schema"},
		{"path", `{"x":"a/../../admin"}`, "schema"},
		{"path", `{"x":"..\\admin"}`, "schema"},
		{"path", `{"x":"a/."}`, "schema"},
		{"path", `{"x":{"../":1}}`, "schema"},
		{"beside", `{"x":"/d"}`, "schema"},
		{"path", `{"x":"a\u0000"}`, "schema"},
		{"path", `{"x":"a\r\nb"}`, "schema"},
		{"path", `{"x":"a\u0085b"}`, "schema"},
		{"header", `{"x":"a\r\nHost: b"}`, "schema"},
		{"header", `{"x":["a","b\n"]}`, "schema"},
		{"header", `{"x":{"a\n":1}}`, "schema"},
		{"cookie", `{"x":"a\u007f"}`, "schema"},
		{"cookie", `{"x":{"a=b; c":1}}`, "schema"},
		{"cookie", `{"x":{"y":1}}`, "schema"},
		{"cookie", `{"x":{"sid":1}}`, "schema"},
		{"deep cookie", `{"x":{"sid":1}}`, "schema"},
		{"query", `{"x":{"y":1}}`, "schema"},
		{"query", `{"x":1,"x":2}`, "ambiguous"},
		{"query", `{"z":1}`, "not_found"},
		{"query", `{"Host":"b"}`, "not_found"},
	} {
		o := &publish.Operation{Method: "GET", Path: "/a", Parameters: []publish.Parameter{parameters[c.in], {Name: "y", In: c.in, Style: "form"}}, Secrets: []string{"cookie sid"}}
		if c.in == "path" {
			o.Path, o.Parameters = "/a/{x}", o.Parameters[:1]
		}
		if c.in == "beside" {
			o.Path, o.Parameters = "/a/{y}..{x}/b", []publish.Parameter{parameter("path", "simple", false), {Name: "y", In: "path", Style: "simple"}}
			c.inputs = `{"y":"c/",` + c.inputs[1:]
		}
		_, failure := o.Request(t.Context(), jsontext.Value(c.inputs), nil)
		if failure == nil || failure.Kind != run.InvalidArguments || failure.Argument == nil || string(failure.Argument.Reason) != c.reason {
			t.Errorf("%s %s: %v", c.in, c.inputs, failure)
		} else if len(failure.Argument.Name) == 0 || failure.Argument.Pointer != "/"+failure.Argument.Name || !strings.Contains(failure.Message, failure.Argument.Name) {
			t.Errorf("%s %s: %q %+v", c.in, c.inputs, failure.Message, failure.Argument)
		}
	}
}

func TestSettable(t *testing.T) {
	for name, want := range map[string]bool{
		"header X-Trace": true, "header If-Match": true, "header range": true, "header accept-language": true, "header content-range": true, "header Stripe-Account": true, "cookie session": true,
		"query Host": true, "path Authorization": true, "header authorization": false, "header Host": false, "header accept": false, "header Content-Type": false,
		"header Accept-Encoding": false, "header Content-Length": false, "header transfer-encoding": false, "header Cookie": false, "header Proxy": false,
		"header PROXY_Thing": false, "header Connection": false, "header TE": false, "header Upgrade": false, "header X-Forwarded-Anything": false,
		"header X_Forwarded_For": false, "header X-Real-IP": false, "header Forwarded": false, "header Sec-Purpose": false, "header X-HTTP-Method-Override": false,
		"header Traceparent": false, "header ": false, "header a b": false, "header a\r\nb": false, "cookie a=b": false, "cookie a;b": false, "cookie ": false,
	} {
		if in, name, _ := strings.Cut(name, " "); publish.Settable(in, name) != want {
			t.Errorf("%s %q: %t", in, name, !want)
		}
	}
}

func TestBodies(t *testing.T) {
	server := newEcho(t)
	members := []publish.Member{{Name: "b", Required: true}, {Name: "a"}, {Name: "c", Style: "deepObject", Explode: true}}
	form, plain := "application/x-www-form-urlencoded", []publish.Member{{Name: "b"}}
	for _, c := range []struct {
		body      publish.Body
		inputs    string
		want      string // the body
		mediaType string
	}{
		{publish.Body{MediaType: "application/json", Members: members}, `{"a": 1.00, "b":12345678901234567890.10}`, `{"a":1.00,"b":12345678901234567890.10}`, "application/json"},
		{publish.Body{MediaType: "application/json", Members: members}, `{"b":null}`, `{"b":null}`, "application/json"},
		{publish.Body{MediaType: "application/json", Members: members}, `{}`, ``, ""},
		{publish.Body{MediaType: "application/json", Members: plain, Required: true}, `{}`, `{}`, "application/json"},
		{publish.Body{MediaType: "application/merge-patch+json", Whole: "body"}, `{"body":[1, {"z":1.0,"a":"\u00e4"}]}`, `[1, {"z":1.0,"a":"\u00e4"}]`, "application/merge-patch+json"},
		{publish.Body{MediaType: "application/json", Whole: "body"}, `{"body":"a"}`, `"a"`, "application/json"},
		{publish.Body{MediaType: "application/json", Whole: "body"}, `{}`, ``, ""},
		{publish.Body{MediaType: form, Members: members}, `{"b":["a b","&=+ä"],"a":{"k": 1},"c":{"k":{"l":[1]}}}`, `b=a+b&b=%26%3D%2B%C3%A4&a=%7B%22k%22%3A1%7D&c%5Bk%5D%5Bl%5D%5B%5D=1`, form},
		{publish.Body{MediaType: form, Members: plain, Required: true}, `{}`, ``, form},
		{publish.Body{MediaType: "Application/X-WWW-Form-Urlencoded", Members: plain}, `{"b":1}`, `b=1`, "Application/X-WWW-Form-Urlencoded"},
		{publish.Body{MediaType: form, Members: []publish.Member{{Name: "b", Style: "form"}, {Name: "c", Style: "pipeDelimited"}}}, `{"b":["a,b","c"],"c":[1,2]}`, `b=a%2Cb,c&c=1%7C2`, form},
		{publish.Body{MediaType: form, Whole: "body"}, `{"body":{"a":1,"b":[2,3]}}`, `a=1&b=2&b=3`, form},
		{publish.Body{MediaType: "text/plain", Whole: "body"}, `{"body":"line\nä"}`, "line\nä", "text/plain"},
		{publish.Body{MediaType: "application/xml", Whole: "body"}, `{"body":"<a/>"}`, "<a/>", "application/xml"},
		{publish.Body{MediaType: "application/octet-stream", Whole: "body", Base64: true}, `{"body":"AAEC/w=="}`, "\x00\x01\x02\xff", "application/octet-stream"},
	} {
		server.send(t, request(t, &publish.Operation{Method: "POST", Path: "/a", Body: &c.body}, c.inputs, nil))
		if string(server.body) != c.want || server.got.Header.Get("Content-Type") != c.mediaType || server.got.ContentLength != int64(len(c.want)) {
			t.Errorf("%s %s: %q %v", c.body.MediaType, c.inputs, server.body, server.got.Header)
		}
	}
	beside := &publish.Operation{Method: "POST", Path: "/a", Body: &publish.Body{MediaType: form, Members: []publish.Member{{Name: "b"}, {Name: "o", Style: "form", Explode: true}}}}
	if _, failure := beside.Request(t.Context(), jsontext.Value(`{"o":{"c":1,"b":2}}`), nil); failure == nil || failure.Argument.Name != "o" {
		t.Errorf("an object sets the field of another input: %v", failure)
	}
	for inputs, name := range map[string]string{`{"a":1}`: "b", `{"a":1,"b":2,"b":3}`: "b", `{"file":"!"}`: "file"} {
		body := publish.Body{MediaType: "application/json", Members: members}
		if name == "file" {
			body = publish.Body{MediaType: "image/png", Whole: "file", Base64: true}
		}
		if _, failure := (&publish.Operation{Method: "POST", Path: "/a", Body: &body}).Request(t.Context(), jsontext.Value(inputs), nil); failure == nil || failure.Argument.Name != name {
			t.Error(inputs, failure)
		}
	}
}

func TestMultipart(t *testing.T) {
	server := newEcho(t)
	png, wave := "\x89PNG\x0D\x0A\x1A\x0A", "RIFF\x00\x00\x00\x00WAVE"
	o := &publish.Operation{Method: "POST", Path: "/a", Body: &publish.Body{MediaType: "multipart/form-data", Members: []publish.Member{
		{Name: `te"xt` + "\r\nX: y"},
		{Name: "image", File: true},
		{Name: "text", File: true},
		{Name: "sound", File: true},
		{Name: "files[]", File: true, MediaType: "text/csv"},
		{Name: "list"},
		{Name: "object"},
		{Name: "имя", MediaType: "application/xml"},
		{Name: "csv", Style: "form"},
		{Name: "pipes", Style: "pipeDelimited"},
		{Name: "multi", Style: "form", Explode: true},
	}}}
	b64 := func(s string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"` }
	r := request(t, o, `{"te\"xt\r\nX: y":"--\r\n","image":`+b64(png)+`,"text":`+b64("a text")+`,"sound":`+b64(wave)+`,"files[]":[`+b64("a,b")+`,`+b64("c")+`],"list":["a",1.0],"object":{"a": [1]},"имя":"<a/>","csv":["a b",1.0],"pipes":["a","b"],"multi":["a","b"]}`, nil)
	server.send(t, r)
	_, parameters, err := mime.ParseMediaType(server.got.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	type part struct{ name, file, mediaType, content string }
	want := []part{
		{`te"xt%0D%0AX: y`, "", "", "--\r\n"}, // as browsers send it
		{"image", "file.png", "image/png", png},
		{"text", "file.txt", "text/plain; charset=utf-8", "a text"},
		{"sound", "file.wav", "audio/wave", wave},
		{"files[]", "file.csv", "text/csv", "a,b"},
		{"files[]", "file.csv", "text/csv", "c"},
		{"list", "", "", "a"},
		{"list", "", "", "1.0"},
		{"object", "", "application/json", `{"a":[1]}`},
		{"имя", "", "application/xml", "<a/>"},
		{"csv", "", "", "a b,1.0"},
		{"pipes", "", "", "a|b"},
		{"multi", "", "", "a"},
		{"multi", "", "", "b"},
	}
	var got []part
	for reader := multipart.NewReader(bytes.NewReader(server.body), parameters["boundary"]); ; {
		p, err := reader.NextPart()
		if err != nil {
			break
		}
		content, _ := io.ReadAll(p)
		got = append(got, part{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(content)})
	}
	if !slices.Equal(got, want) || !strings.Contains(string(server.body), `form-data; name="имя"`+"\r\n") || !strings.Contains(string(server.body), `name="list"`) {
		t.Errorf("%q", got)
	}
}

// fuzzed is an operation with a parameter in each place, beside others that an argument must not change.
func fuzzed(style string, explode bool) *publish.Operation {
	in := func(in, style string) publish.Parameter {
		return publish.Parameter{Name: in, In: in, Style: style, Explode: explode}
	}
	return &publish.Operation{
		Method: "POST", Path: "/v1/{path}/end", Accept: []string{"application/json"}, Credentials: []string{"X-Key"},
		Parameters: []publish.Parameter{
			in("path", "simple"), in("query", style), in("header", "simple"), in("cookie", "form"),
			{Name: "json", In: "query", JSON: true},
			{Name: "fixed", In: "query", Style: "form"},
		},
		Body: &publish.Body{MediaType: "application/x-www-form-urlencoded", Members: []publish.Member{{Name: "field"}, {Name: "other"}}},
	}
}

// FuzzRequest: no value of an argument changes the request beyond its parameter, as servers read it.
func FuzzRequest(f *testing.F) {
	server := newEcho(f)
	styles := []string{"form", "deepObject"}
	for _, value := range []string{
		`"../../admin"`, `"%2e%2e/"`, `"a?b#c&d=e;f"`, `"a\r\nHost: b"`, `["a",[".."]]`, `{"a":"b","fixed":"c"}`, `{"a][b":{"c":1}}`, `{"; x=y":"z"}`, `"{path}"`,
		`"\u2028\ud800"`, `1e400`, `true`, `null`, `" a "`, `";a=b"`, `{"":""}`, `"a=b"`, `"\\..\\"`, `{"=":"&"}`,
	} {
		for i := range styles {
			f.Add(value, uint8(i), i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, text string, style uint8, explode bool) {
		value := jsontext.Value(strings.TrimSpace(text))
		if !value.IsValid() || len(value) > 10_000 {
			return
		}
		o := fuzzed(styles[int(style)%len(styles)], explode)
		all := []string{"path", "query", "header", "cookie", "json", "field"}
		for _, input := range all {
			inputs := `{"fixed":"f","other":"o"`
			if input != "path" {
				inputs += `,"path":"p"`
			}
			inputs += `,"` + input + `":` + string(value) + `}`
			r, failure := o.Request(t.Context(), jsontext.Value(inputs), http.Header{"X-Key": {"secret"}})
			if failure != nil {
				if failure.Argument == nil || failure.Argument.Name != input {
					t.Fatalf("%s %s: %v", input, text, failure)
				}
				continue
			}
			server.send(t, r)
			check(t, server, input, value)
		}
	})
}

// check compares what a server got with what the parameter may change.
func check(t *testing.T, server *echo, input string, value jsontext.Value) {
	t.Helper()
	got := server.got
	segments := strings.Split(got.URL.EscapedPath(), "/")
	if len(segments) != 4 || segments[1] != "v1" || segments[3] != "end" || input != "path" && segments[2] != "p" {
		t.Fatalf("%s %s: path %s", input, value, got.URL.EscapedPath())
	}
	if clean, err := url.PathUnescape(segments[2]); err != nil || clean == "." || clean == ".." || clean == "" || strings.ContainsFunc(clean, unicode.IsControl) {
		t.Fatalf("%s %s: segment %q", input, value, segments[2])
	}
	query, err := url.ParseQuery(got.URL.RawQuery)
	if err != nil || !slices.Equal(query["fixed"], []string{"f"}) {
		t.Fatalf("%s %s: query %s %v", input, value, got.URL.RawQuery, err)
	}
	members := map[string]bool{}
	for name := range jsonrpc.Members(value) {
		members[string(jsonrpc.Unquote(name))] = true
	}
	for name := range query {
		if name != "fixed" && name != input && (input != "query" || !members[name] && !strings.HasPrefix(name, "query[")) {
			t.Fatalf("%s %s: parameter %q in %s", input, value, name, got.URL.RawQuery)
		}
	}
	if value.Kind() == '"' && input == "query" && query.Get(input) != string(jsonrpc.Unquote(value)) && query[input+"[]"] == nil {
		t.Fatalf("%s %s: %q", input, value, query)
	}
	known := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/x-www-form-urlencoded"}, "X-Key": {"secret"}}
	for name := range got.Header {
		own := map[string]string{"header": "Header", "cookie": "Cookie"}[input]
		if name != own && name != "User-Agent" && name != "Content-Length" && !slices.Equal(got.Header[name], known[name]) {
			t.Fatalf("%s %s: header %s: %q", input, value, name, got.Header[name])
		}
	}
	for _, cookie := range got.Cookies() {
		if name, err := url.PathUnescape(cookie.Name); err != nil || name != "cookie" && !members[name] {
			t.Fatalf("%s %s: cookie %s", input, value, got.Header["Cookie"])
		}
	}
	form, err := url.ParseQuery(string(server.body))
	if err != nil || !slices.Equal(form["other"], []string{"o"}) || len(form) > 2 || len(form) == 2 && (input != "field" || form["field"] == nil) {
		t.Fatalf("%s %s: body %s", input, value, server.body)
	}
}
