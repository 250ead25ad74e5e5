package skillsharing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// documentReaders are the ways to read a document, each with its path and a
// document that is valid there.
var documentReaders = []struct {
	name, path, document string
	read                 func(context.Context, *skillsharing.Client) *run.Failure
}{
	{"index", wellKnown, acmeIndex, func(ctx context.Context, c *skillsharing.Client) *run.Failure {
		_, e := indexOf(ctx, c)
		return e
	}},
	{"registry", "/skills", acmeIndex, func(ctx context.Context, c *skillsharing.Client) *run.Failure {
		_, e := registryOf(ctx, c, "")
		return e
	}},
	{"descriptor", "/skill.json", forecast, func(ctx context.Context, c *skillsharing.Client) *run.Failure {
		_, e := c.Skill(ctx, discovery.NewLocation(c.Origin.String()+"/skill.json"))
		return e
	}},
}

// S36, S20: a document is read up to its limit.
func TestDocumentSize(t *testing.T) {
	gzipped := func(text string) http.HandlerFunc {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text) // into memory
		_ = w.Close()                  // into memory
		return answers(200, b.String(), "Content-Type", "application/json", "Content-Encoding", "gzip")
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<10)); err != nil {
				return
			}
		}
	}
	for _, d := range documentReaders {
		size := int64(len(d.document))
		plain := answers(200, d.document, "Content-Type", "application/json")
		for _, c := range []struct {
			name            string
			answer          http.HandlerFunc
			document, whole int64  // the limits of documents and of all answers
			want            string // of the message; empty: it is accepted
		}{
			{"as large as may be", plain, size, 1 << 20, ""},
			{"larger", plain, size - 1, 1 << 20, fmt.Sprintf("larger than the %d bytes that are accepted (limits document_size)", size-1)},
			{"as large as may be after decompression", gzipped(d.document), size, 1 << 20, ""},
			{"larger after decompression", gzipped(d.document), size - 1, 1 << 20, "(limits document_size)"},
			{"endless", endless, size, 1 << 20, "(limits document_size)"},
			{"as large as any answer may be", plain, 1 << 20, size, ""},
			{"larger than any answer may be", plain, 1 << 20, size - 1, fmt.Sprintf("larger than the %d bytes that are accepted (max_response_size)", size-1)},
			{"no limit of its own", plain, 0, size, ""},
			{"no limit of its own, and larger", plain, 0, size - 1, "(max_response_size)"},
		} {
			t.Run(d.name+" "+c.name, func(t *testing.T) {
				p := newProvider(t)
				p.on("GET "+d.path, c.answer)
				client := newReader(t, p)
				client.Limits.DocumentSize, client.MaxResponseSize = c.document, c.whole
				e := d.read(t.Context(), client)
				if c.want == "" {
					if e != nil {
						t.Errorf("error %+v", e)
					}
					return
				}
				wantError(t, e, run.ProviderFault, run.ExecutedNo)
				if !strings.Contains(e.Message, c.want) || !e.Permanent() {
					t.Errorf("%s", e.Message)
				}
				limit, most := "max_response_size", c.whole
				if strings.Contains(c.want, "document_size") {
					limit, most = "document_size", c.document
				}
				if want := fmt.Sprintf(`{"limit":%q,"max":%d}`, limit, most); string(front.Details(e)) != want {
					t.Errorf("details %s, want %s", front.Details(e), want)
				}
			})
		}
	}
}

// listOf is a JSON array of n items.
func listOf(n int, item func(i int) string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String() + "]"
}

func indexEntry(i int) string {
	return fmt.Sprintf(`{"id":"acme/s%d","name":"S","capability_type":"api","description":"d","descriptor_url":"https://acme.example/%d.json","access":"public","version":"1.0.0"}`, i, i)
}

func inputDefinition(i int) string {
	return fmt.Sprintf(`{"name":"p%d","type":"string","description":"d","required":false}`, i)
}

func zero(int) string { return "0" }

// withMember replaces a list of a document, whose text it does not read.
func withMember(tb testing.TB, document, member, list string) string {
	tb.Helper()
	const mark = "the list"
	return strings.Replace(string(edited(tb, document, "/"+member+"="+quote(mark))), quote(mark), list, 1)
}

// S36: entries are counted before any of them is judged.
func TestNumberOfEntries(t *testing.T) {
	index, registry, descriptor := documentReaders[0], documentReaders[1], documentReaders[2]
	index0 := func(list string) string { return withMember(t, acmeIndex, "skills", list) }
	bare := func(list string) string { return list }
	descriptor0 := func(list string) string { return withMember(t, forecast, "inputs", list) }
	for _, c := range []struct {
		about    string
		reader   int
		document func(list string) string
		entry    func(int) string
		path     string
		most     int
	}{
		{index.name, 0, index0, indexEntry, "/skills", 10_000},
		{registry.name, 1, index0, indexEntry, "/skills", 10_000},
		{registry.name + " that is an array", 1, bare, indexEntry, "", 10_000},
		{descriptor.name, 2, descriptor0, inputDefinition, "/inputs", 500},
	} {
		violation := func(n int) string {
			return fmt.Sprintf(`[{"path":%q,"message":"must have at most %d entries","expected":"at most %d entries","actual":%d}]`, c.path, c.most, c.most, n)
		}
		for _, d := range []struct{ about, list, details string }{
			{"as many as may be", listOf(c.most, c.entry), ""},
			{"one more", listOf(c.most+1, c.entry), violation(c.most + 1)},
			{"many more, and all invalid", listOf(30_000, zero), violation(30_000)},
		} {
			t.Run(c.about+", "+d.about, func(t *testing.T) {
				r := documentReaders[c.reader]
				p := newProvider(t)
				p.on("GET "+r.path, answers(200, c.document(d.list), "Content-Type", "application/json"))
				client := newReader(t, p)
				client.MaxResponseSize = 4 << 20
				e := r.read(t.Context(), client)
				if d.details == "" {
					if e != nil {
						t.Errorf("error %.200v", e)
					}
					return
				}
				wantError(t, e, run.InvalidDocument, run.ExecutedNo)
				if string(front.Details(e)) != d.details {
					t.Errorf("got %s, want %s", front.Details(e), d.details)
				}
			})
		}
	}
}

func TestDefaultNumberOfEntries(t *testing.T) {
	if _, err := document.ParseIndex([]byte(withMember(t, acmeIndex, "skills", listOf(10_000, indexEntry)))); err != nil {
		t.Errorf("10,000 skills: %v", err)
	}
	for _, n := range []int{10_001, 100_000} {
		for _, list := range []string{listOf(n, zero), withMember(t, acmeIndex, "skills", listOf(n, zero))} {
			_, err := document.Standard.ParseRegistry([]byte(list))
			if e := problem(t, err); !strings.Contains(string(front.Details(e)), fmt.Sprintf(`"actual":%d`, n)) {
				t.Errorf("%d skills: %s", n, front.Details(e))
			}
		}
	}
	for n, valid := range map[int]bool{500: true, 501: false} {
		list := listOf(n, inputDefinition)
		_, err := document.ParseDescriptor([]byte(withMember(t, forecast, "inputs", list)))
		if (err == nil) != valid {
			t.Errorf("%d inputs: %v", n, err)
		}
	}
}

// A list of a million is refused before it takes the memory of one.
func TestManyEntriesTakeLittleMemory(t *testing.T) {
	text := []byte(withMember(t, acmeIndex, "skills", listOf(1_000_000, zero)))
	used := allocated(func() {
		if _, err := document.ParseIndex(text); err == nil {
			t.Error("no error")
		}
	})
	if used > 32<<20 {
		t.Errorf("%d bytes were allocated for a document of %d", used, len(text))
	}
}

// allocated is how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// S35: the schemas of parameters.
func TestSchemaLimits(t *testing.T) {
	text := func(n int) string { return `{"description":"` + strings.Repeat("x", n-13) + `"}` } // counted as n bytes
	applied := func(n int) string {                                                             // n subschemas, itself included
		return `{"allOf":` + listOf(n-1, func(int) string { return `{}` }) + `}`
	}
	unusual := func(n int) string { return `{"unevaluatedItems":true,` + applied(n)[1:] }
	repeated := func(n int, schema string, more ...string) []string {
		var list []string
		for range n {
			list = append(list, schema)
		}
		return append(list, more...)
	}
	small := document.Limits{SchemaSize: 1000}
	for _, c := range []struct {
		name    string
		limits  document.Limits
		schemas []string
		want    string // of the message; empty: they are accepted
	}{
		{"bytes", small, []string{text(1000)}, ""},
		{"more bytes", small, []string{text(1001)}, "/inputs/0/schema must have at most 1000 bytes (limits schema_size)"},
		{"bytes of all", small, repeated(4, text(1000)), ""},
		{"more bytes of all", small, repeated(4, text(1000), `{}`), "/inputs/4/schema must not make the schemas of all inputs longer than 4000 bytes (limits schema_size)"},
		{"subschemas", document.Limits{}, []string{applied(2048)}, ""},
		{"more subschemas", document.Limits{}, []string{applied(2049)}, "/inputs/0/schema must not apply so many subschemas to one value"},
		{"subschemas that double", document.Limits{}, []string{sample.Doubling(9, `{"allOf":[*,*]}`)}, ""}, // 2045
		{"more subschemas that double", document.Limits{}, []string{sample.Doubling(10, `{"allOf":[*,*]}`)}, "must not apply so many subschemas to one value"},
		{"work", document.Limits{}, []string{unusual(600)}, ""},
		{"more work", document.Limits{}, []string{unusual(1800)}, "/inputs/0/schema must not take so much work to compile, together with the schemas of the inputs before it"},
		{"work of all", document.Limits{}, repeated(2, unusual(800)), "/inputs/1/schema must not take so much work to compile"},
		{"bytes of the default", document.Limits{}, []string{text(64 << 10)}, ""},
		{"more bytes than the default", document.Limits{}, []string{text(64<<10 + 1)}, "65536 bytes"},
		{"beyond all bounds", document.Limits{SchemaSize: 1<<63 - 1}, []string{text(1 << 19)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			document := withMember(t, forecast, "inputs", listOf(len(c.schemas), func(i int) string {
				return strings.Replace(inputDefinition(i), "}", `,"schema":`+c.schemas[i]+"}", 1)
			}))
			p := newProvider(t)
			p.on("GET /skill.json", answers(200, document))
			client := newReader(t, p)
			client.Limits = c.limits
			_, e := client.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json"))
			if c.want == "" {
				if e != nil {
					t.Errorf("error %.300v", e)
				}
				return
			}
			wantError(t, e, run.InvalidDocument, run.ExecutedNo)
			if !strings.Contains(e.Message, c.want) {
				t.Errorf("got %.300s, want %s", e.Message, c.want)
			}
		})
	}
}

// nested returns depth arrays within each other.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// R18, S19: documents nest no deeper than 100 levels.
func TestDocumentDepth(t *testing.T) {
	for _, d := range documentReaders {
		for _, c := range []struct {
			depth int
			valid bool
		}{
			{100, true},
			{101, false},
			{100_000, false},
		} {
			p := newProvider(t)
			p.on("GET "+d.path, answers(200, withMember(t, d.document, "x_deep", nested(c.depth-1)), "Content-Type", "application/json"))
			e := d.read(t.Context(), newReader(t, p))
			if c.valid {
				if e != nil {
					t.Errorf("%s, %d levels: %v", d.name, c.depth, e)
				}
				continue
			}
			wantError(t, e, run.InvalidDocument, run.ExecutedNo)
		}

		// What is refused otherwise is judged by its status, however deep it nests.
		p := newProvider(t)
		p.on("GET "+d.path, answers(404, `{"error":{"code":"PERMISSION_DENIED","message":"No.","details":`+nested(600)+`}}`))
		gone := run.SkillNotFound
		if d.name != "descriptor" {
			gone = run.ProviderFault
		}
		wantError(t, d.read(t.Context(), newReader(t, p)), gone, run.ExecutedNo)
	}
}

// asking are the ways to ask about a run, each with the path of its answer, what
// to do before, and the phase.
var asking = []struct {
	name, route string
	phase       run.Phase
	ask         func(context.Context, *skillsharing.Client, *discovery.Skill) (*document.Response, *run.Failure)
}{
	{"invocation", "POST /run", run.PhaseInvoke, func(ctx context.Context, c *skillsharing.Client, s *discovery.Skill) (*document.Response, *run.Failure) {
		r, e, _ := submit(ctx, c, s)
		return r, e
	}},
	{"poll", "GET /status/" + runID, run.PhasePoll, func(ctx context.Context, c *skillsharing.Client, s *discovery.Skill) (*document.Response, *run.Failure) {
		return c.Follow(ctx, s, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
	}},
	{"result", "GET /result/" + runID, run.PhaseResult, func(ctx context.Context, c *skillsharing.Client, s *discovery.Skill) (*document.Response, *run.Failure) {
		return c.Result(ctx, s, &document.Response{ExecutionID: runID, State: run.Completed}, new(skillsharing.FollowOptions), new(skillsharing.Stats))
	}},
}

// newAsker makes a provider that gives an answer, and a client that polls without delay.
func newAsker(tb testing.TB, route string, answer http.HandlerFunc) (*provider, *skillsharing.Client) {
	tb.Helper()
	p := newProvider(tb)
	p.on(route, answer)
	c := newClient(tb, p.URL, newTransport(tb))
	c.Polling.Plan = polling.Backoff{Initial: time.Millisecond, Longest: time.Millisecond}
	return p, c
}

// R18, S19: answers are not descended into deeper than they may nest.
func TestAnswerDepth(t *testing.T) {
	const limit = document.MaxDepth
	inStatus := func(depth int) string {
		return `{"execution_id":"exec-1","status":"completed","output":` + nested(depth-1) + `}`
	}
	bare := func(depth int) string { return `{"output":` + nested(depth-1) + `}` }
	unified := func(depth int) string {
		return `{"error":{"code":"PERMISSION_DENIED","message":"No.","details":` + nested(depth-2) + `}}`
	}
	for _, a := range asking {
		for _, c := range []struct {
			name   string
			status int
			body   func(depth int) string
			code   run.Kind // at the limit; empty: it is accepted
		}{
			{"run", 200, inStatus, 0},
			{"bare output", 200, bare, run.ProviderFault},
			{"unified error", 403, unified, run.PermissionDenied},
		} {
			if a.phase == run.PhaseResult && c.name == "bare output" {
				c.code = 0
			}
			for _, depth := range []int{limit, limit + 1, 100_000} {
				t.Run(fmt.Sprintf("%s, %s, %d", a.name, c.name, depth), func(t *testing.T) {
					p, client := newAsker(t, a.route, answers(c.status, c.body(depth)))
					r, e := a.ask(t.Context(), client, skillAt(t, p.URL))
					if n := len(p.requests()); n != 1 {
						t.Errorf("%d requests", n)
					}
					message := "the answer nests deeper than 512 levels"
					if depth == limit {
						if c.code == 0 && (e != nil || string(r.Output) != nested(depth-1)) {
							t.Errorf("%+v, %+v", r, e)
						}
						if c.code != 0 && (e == nil || e.Kind != c.code || strings.Contains(e.Message, message)) {
							t.Errorf("%+v", e)
						}
						return
					}
					if string(front.Details(e)) != `{"limit":"depth","max":512}` {
						t.Errorf("details %s", front.Details(e))
					}
					want := run.ExecutedYes
					if a.phase == run.PhaseInvoke {
						want = map[int]run.Executed{200: run.ExecutedMaybe, 403: run.ExecutedNo}[c.status]
					}
					wantError(t, e, run.ProviderFault, want)
					if !strings.Contains(e.Message, message) || e.HTTPStatus != c.status || e.Phase != a.phase || (e.ExecutionID == runID) != (a.phase != run.PhaseInvoke) {
						t.Errorf("%+v", e)
					}
				})
			}
		}
	}
}

// R17: the output of a run is bounded by itself.
func TestOutputSize(t *testing.T) {
	const limit = 100
	output := `"` + strings.Repeat("x", limit-2) + `"`
	whole := `{"execution_id":"exec-1","status":"completed","output": %s }`
	for _, a := range asking {
		for _, c := range []struct {
			name, body, output string
			limit              int64
			id                 string // of the error; empty: it is accepted
		}{
			{"as large as may be", whole, output, limit, ""},
			{"larger", whole, output, limit - 1, runID},
			{"no limit", whole, output, 0, ""},
			{"failed", `{"execution_id":"exec-1","status":"failed","output":%s}`, output, limit - 1, ""},
			{"without an id", `{"status":"completed","output":%s}`, output, limit - 1, "known"},
			{"bare", `{"output":%s}`, output, limit, ""},
			{"bare and larger", `{"output":%s}`, output, limit - 1, "known"},
		} {
			if strings.HasPrefix(c.name, "bare") && a.phase != run.PhaseResult {
				continue // which is no answer there
			}
			t.Run(a.name+" "+c.name, func(t *testing.T) {
				p, client := newAsker(t, a.route, answers(200, fmt.Sprintf(c.body, c.output)))
				client.Limits.OutputSize = c.limit
				r, e := a.ask(t.Context(), client, skillAt(t, p.URL))
				if c.id == "" {
					if e != nil || string(r.Output) != c.output {
						t.Errorf("%+v, %+v", r, e)
					}
					return
				}
				id := runID
				if c.id == "known" && a.phase == run.PhaseInvoke {
					id = ""
				}
				wantError(t, e, run.ProviderFault, run.ExecutedYes)
				if e.ExecutionID != id || !strings.Contains(e.Message, "100 bytes is larger than the 99 bytes that are accepted (limits output_size)") || e.Phase != a.phase || !e.Lost ||
					string(front.Details(e)) != `{"limit":"output_size","max":99}` {
					t.Errorf("%+v", e)
				}
				if n := len(p.requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

// An id that holds the bridge's own secret is not told, however its run ended.
func TestSecretInTheIDOfALargeOutput(t *testing.T) {
	p, c := newAsker(t, "POST /run", answers(200, `{"execution_id":"x-secret-key","status":"completed","output":"long"}`))
	c.Credentials, c.Limits.OutputSize = &keyed{key: "secret-key"}, 5
	_, e, _ := submit(t.Context(), c, skillAt(t, p.URL))
	wantError(t, e, run.ProviderFault, run.ExecutedYes)
	if e.ExecutionID != "x-[redacted]" {
		t.Errorf("execution id %s", e.ExecutionID)
	}
}

// A run that has ended is not started again, whatever status its end came with.
func TestLargeOutputWithA401(t *testing.T) {
	p, c := newAsker(t, "POST /run", answers(401, completes))
	creds := new(renewing)
	c.Credentials, c.Limits.OutputSize = creds, 5
	_, e, _ := submit(t.Context(), c, skillAt(t, p.URL, `/auth={"type":"api_key"}`))
	wantError(t, e, run.ProviderFault, run.ExecutedYes)
	if n := len(p.requests()); n != 1 || creds.renewals != 0 {
		t.Errorf("%d requests, %d renewals", n, creds.renewals)
	}
}

// stalls begins an answer and says nothing more.
func stalls(begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, begin)           // the test sees whether it arrived
		_ = http.NewResponseController(w).Flush() // the test sees whether it arrived
		<-r.Context().Done()                      // until the client has closed the connection
	}
}

// wantStalled checks the error of an answer that stopped coming.
func wantStalled(tb testing.TB, e *run.Failure, executed run.Executed) {
	tb.Helper()
	wantError(tb, e, run.Unreachable, executed)
	if e != nil && (e.Cause == nil || !strings.Contains(e.Cause.Error(), "its answer stopped") || retryOf(e) == nil) {
		tb.Errorf("%+v", e)
	}
}

// R16: an answer that stands still is given up, and its connection is closed.
func TestStalledAnswers(t *testing.T) {
	const timeout = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // for a machine under load
	defer cancel()
	p, c := newAsker(t, "POST /run", stalls(`{"execution_id":"exec-1","status":"comp`))
	c.Limits.BodyTimeout = timeout
	_, e, effort := submit(ctx, c, skillAt(t, p.URL, consent))
	wantStalled(t, e, run.ExecutedMaybe)
	if effort.Attempts != 1 || e.HTTPStatus != 200 || e.Permanent() {
		t.Errorf("%+v after %d attempts", e, effort.Attempts)
	}

	for _, d := range documentReaders {
		p := newProvider(t)
		p.on("GET "+d.path, stalls(d.document[:20]))
		c := newReader(t, p)
		c.Limits.BodyTimeout = timeout
		wantStalled(t, d.read(ctx, c), run.ExecutedNo)
	}

	// What becomes of a run is worth asking again.
	p, c = newAsker(t, "GET /status/"+runID, stalls(`{"execution_id"`))
	p.on("GET /status/"+runID, stalls(`{"execution_id"`), breaksOff, stalls(""), answers(200, completes))
	c.Limits.BodyTimeout = timeout
	r, e := c.Follow(ctx, skillAt(t, p.URL), &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
	if e != nil || r.State != run.Completed {
		t.Errorf("%+v", e)
	}
	p, c = newAsker(t, "GET /status/"+runID, stalls(`{"execution_id"`))
	c.Limits.BodyTimeout = timeout
	_, e = c.Follow(ctx, skillAt(t, p.URL), &skillsharing.FollowOptions{ExecutionID: runID, Resumed: true, Until: time.Now()}, new(skillsharing.Stats))
	wantStalled(t, e, run.ExecutedYes)
	if n := len(p.requests()); n != 1 || e.ExecutionID != runID {
		t.Errorf("%+v after %d requests", e, n)
	}
}

// dripping is a transport whose answer comes byte by byte, with a pause before
// each, and then ends or stands still.
type dripping struct {
	body    string
	pauses  []time.Duration // the last one is repeated
	endless bool
	closed  atomic.Int32 // how often
}

func (d *dripping) RoundTrip(r *http.Request) (*http.Response, error) {
	wrote(r)
	reader, writer := io.Pipe()
	go func() {
		pauses := d.pauses
		for i := range len(d.body) {
			time.Sleep(pauses[0])
			if len(pauses) > 1 {
				pauses = pauses[1:]
			}
			if _, err := writer.Write([]byte{d.body[i]}); err != nil {
				return
			}
		}
		if !d.endless {
			_ = writer.Close() // always nil
		}
	}()
	context.AfterFunc(r.Context(), func() { _ = reader.CloseWithError(r.Context().Err()) }) // as a Transport must; always nil
	resp := httptest.NewRecorder().Result()
	resp.Body = drippingBody{reader, &d.closed}
	return resp, nil
}

type drippingBody struct {
	*io.PipeReader
	closed *atomic.Int32
}

func (b drippingBody) Close() error {
	b.closed.Add(1)
	return b.PipeReader.Close()
}

// R16: an answer that drips within the time is read until it ends or the deadline
// has come, and not a moment longer than that it may stand still.
func TestDrippingAnswers(t *testing.T) {
	const still = 30 * time.Second
	for _, c := range []struct {
		name    string
		body    string
		pauses  []time.Duration
		endless bool
		limit   time.Duration
		timeout time.Duration // of the call
		code    run.Kind
		after   time.Duration
	}{
		{"to its end", completes, []time.Duration{still - 1}, false, still, time.Hour, 0, time.Duration(len(completes)) * (still - 1)},
		{"until the deadline", completes, []time.Duration{still - 1}, false, still, 5 * time.Minute, run.DeadlineExceeded, 5 * time.Minute},
		{"nothing at all", completes, []time.Duration{time.Hour}, false, still, time.Hour, run.Unreachable, still},
		{"slower in the end", completes, []time.Duration{time.Second, time.Second, still + 1}, false, still, time.Hour, run.Unreachable, 2*time.Second + still},
		{"no end", completes, []time.Duration{0}, true, still, time.Hour, run.Unreachable, still},
		{"without a limit", completes, []time.Duration{time.Minute}, false, 0, 2 * time.Hour, 0, time.Duration(len(completes)) * time.Minute},
		{"without a limit, until the deadline", completes, []time.Duration{0}, true, 0, time.Hour, run.DeadlineExceeded, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := &dripping{body: c.body, pauses: c.pauses, endless: c.endless}
				client := newClient(t, acme, answer)
				client.Limits.BodyTimeout = c.limit
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				start := time.Now()
				r, e, _ := submit(ctx, client, skillAt(t, acme))
				took := time.Since(start)
				time.Sleep(time.Hour) // until nothing drips any more
				if took != c.after {
					t.Errorf("it took %v, want %v", took, c.after)
				}
				if c.code == 0 {
					if n := answer.closed.Load(); e != nil || r.State != run.Completed || n != 1 {
						t.Errorf("closed %d times, %+v", n, e)
					}
					return
				}
				wantError(t, e, c.code, run.ExecutedMaybe)
			})
		})
	}
}

// gzipBomb is 1 GiB of zeros, compressed: one member of a MiB over and over
// (RFC 1952, section 2.2).
func gzipBomb(tb testing.TB) string {
	tb.Helper()
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	if _, err := w.Write(bytes.Repeat([]byte{'0'}, 1<<20)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return strings.Repeat(member.String(), 1<<10)
}

// R17, S20: a bomb of 1 GiB takes no more memory than what it is cut to.
func TestGzipBombs(t *testing.T) {
	bomb := answers(200, gzipBomb(t), "Content-Type", "application/json", "Content-Encoding", "gzip")
	const limit = 1 << 20
	check := func(t *testing.T, read func() *run.Failure, executed run.Executed) {
		t.Helper()
		var e *run.Failure
		used := allocated(func() { e = read() })
		wantError(t, e, run.ProviderFault, executed)
		if !strings.Contains(e.Message, "larger than the 1MiB that are accepted") {
			t.Errorf("%s", e.Message)
		}
		if used > 6*limit { // buffers that grow, and what they are copied from
			t.Errorf("%d bytes were allocated for an answer of at most %d", used, limit)
		}
	}
	for _, d := range documentReaders {
		t.Run(d.name, func(t *testing.T) {
			p := newProvider(t)
			p.on("GET "+d.path, bomb)
			c := newReader(t, p)
			c.MaxResponseSize, c.Limits.DocumentSize = 1<<30, limit
			check(t, func() *run.Failure { return d.read(t.Context(), c) }, run.ExecutedNo)
		})
	}
	for _, a := range asking {
		t.Run(a.name, func(t *testing.T) {
			p, c := newAsker(t, a.route, bomb)
			c.MaxResponseSize = limit
			s := skillAt(t, p.URL)
			executed := run.ExecutedYes
			if a.phase == run.PhaseInvoke {
				executed = run.ExecutedMaybe
			}
			check(t, func() *run.Failure {
				_, e := a.ask(t.Context(), c, s)
				return e
			}, executed)
		})
	}
}

// The output of a run tells no secret, however it is spelt, and one without any
// is not touched.
func TestSecretsInOutputs(t *testing.T) {
	const key = `k-1"2/3é`
	short := "12345"
	for _, c := range []struct{ name, output, want string }{
		{"none", ` { "a" : [ 1.0, "\u0061\/", "k-1", "k-1\"2\/3" ] } `, `{ "a" : [ 1.0, "\u0061\/", "k-1", "k-1\"2\/3" ] }`},
		{"verbatim", `["token6","xtoken6y",1.0]`, `["[redacted]","x[redacted]y",1.0]`},
		{"escaped", `{"a":"\u006b-1\u00222\/3\u00E9"}`, `{"a":"[redacted]"}`},
		{"escaped as little as may be", `{"a":"k-1\"2/3é"}`, `{"a":"[redacted]"}`},
		{"after other escapes", `["\\","\"","\\\"","x\n",{"\u0074oken6":"\\"}]`, `["\\","\"","\\\"","x\n",{"[redacted]":"\\"}]`},
		{"as package net/http quotes it", `"k-1\\\"2/3é"`, `"[redacted]"`},
		{"a text", `"token6"`, `"[redacted]"`},
		{"several", `["token6k-1\"2/3é","token6"]`, `["[redacted][redacted]","[redacted]"]`},
		{"across strings", `["tok","en6"]`, `["tok","en6"]`},
		{"too short to be looked for", `["12345", "\u0031\u0032\u0033\u0034\u0035"]`, `["12345", "\u0031\u0032\u0033\u0034\u0035"]`},
		{"not a text", `[1,true,null]`, `[1,true,null]`},
		{"names that become one", `{"token6":1,"[redacted]":2}`, `{"[redacted]":1,"[redacted] 2":2}`},
	} {
		for _, a := range asking {
			t.Run(c.name+" "+a.name, func(t *testing.T) {
				p, client := newAsker(t, a.route, answers(200, `{"execution_id":"exec-1","status":"completed","output":`+c.output+`}`))
				client.Credentials = &keyed{key: key, more: []string{short}}
				client.DiscoveryCredentials = &keyed{key: "token6"}
				r, e := a.ask(t.Context(), client, skillAt(t, p.URL))
				if e != nil || string(r.Output) != c.want {
					t.Errorf("got %s (%v), want %s", r.Output, e, c.want)
				}
			})
		}
	}
	p, client := newAsker(t, "GET /result/"+runID, answers(200, `{"output":"\u0074oken6"}`))
	client.Credentials = &keyed{key: "token6"}
	r, e := asking[2].ask(t.Context(), client, skillAt(t, p.URL))
	if e != nil || string(r.Output) != `"[redacted]"` {
		t.Errorf("bare: %s, %v", r.Output, e)
	}
}

// S374: the execution id is in lists and in rows of the database, which no limit of answers bounds. So a run has no longer one than a URL may have.
func TestS374LongExecutionIDs(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	answer := func(id, members string) scriptedAnswer { return says(200, `{"execution_id":"`+id+`",`+members+`}`) }
	for _, c := range []struct {
		name, id, members, edit string
		state                   run.State // 0: it can't be followed
	}{
		{"the longest", long[:document.MaxExecutionID], `"status":"completed","output":1`, "", run.Completed},
		{"the longest that is followed", long[:document.MaxExecutionID], `"status":"accepted"`, "", run.Accepted},
		{"completed", long, `"status":"completed","output":1`, "", run.Completed},
		{"completed without an output", long, `"status":"completed"`, "-/endpoint/result_url", run.Completed},
		{"completed with the output elsewhere", long, `"status":"completed"`, "", 0},
		{"failed", long, `"status":"failed"`, "", run.Failed},
		{"accepted", long, `"status":"accepted"`, "", 0},
		{"running", long, `"status":"running"`, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := skillAt(t, acme)
			if c.edit != "" {
				s = skillAt(t, acme, c.edit)
			}
			transport := script(t, answer(c.id, c.members))
			r, e, _ := submit(t.Context(), newClient(t, acme, transport), s)
			if c.state == 0 {
				wantError(t, e, run.ProviderFault, run.ExecutedYes)
				if !e.Lost || len(e.ExecutionID) > document.MaxExecutionID+len("…") || len(transport.asked) != 1 {
					t.Errorf("%d bytes, %d requests: %+v", len(e.ExecutionID), len(transport.asked), e)
				}
				return
			}
			if e != nil || r.State != c.state || len(r.ExecutionID) > document.MaxExecutionID+len("…") || !strings.HasPrefix(r.ExecutionID, long[:document.MaxExecutionID]) {
				t.Errorf("%.700v, %+v", r, e)
			}
		})
	}
}
