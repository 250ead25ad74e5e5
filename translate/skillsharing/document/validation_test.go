package document_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const (
	forecast     = sample.Descriptor
	acmeIndex    = sample.Index
	oauth2Object = sample.OAuth2
	customObject = sample.CustomAuth
)

var edited = sample.Edited

// documentCase is a document, as edits of a valid one, and the pointers of its
// violations. None: it is valid.
type documentCase struct {
	name     string
	edits    []string
	pointers []string
}

func valid(name string, edits ...string) documentCase { return documentCase{name, edits, nil} }

func invalid(pointer string, edits ...string) documentCase {
	return documentCase{strings.Join(edits, " "), edits, []string{pointer}}
}

func descriptorCases() []documentCase {
	cases := []documentCase{
		valid("as it is"),
		valid("tags", `/tags=["a","b"]`),
		valid("documentation_url", `/documentation_url="https://acme.example/docs"`),
		valid("documentation_url is for people", `/documentation_url="see our wiki"`),
		valid("created_at", `/created_at="2025-01-15T08:00:00Z"`),
		valid("updated_at", `/updated_at="2025-01-15T08:00:00Z"`),
		valid("capability_type plugin", `/capability_type="plugin"`),
		valid("capability_type knowledge", `/capability_type="knowledge"`),
		valid("capability_type task", `/capability_type="task"`),
		valid("access restricted", `/access="restricted"`),
		valid("access private", `/access="private"`),
		valid("method GET", `/endpoint/method="GET"`),
		valid("method PUT", `/endpoint/method="PUT"`),
		valid("method DELETE", `/endpoint/method="DELETE"`),
		valid("id of reverse domain form", `/id="com.acme.forecast-v1"`),
		valid("unknown members everywhere", `/x_new=1`, `/endpoint/x=1`, `/inputs/0/x=1`, `/auth/x=1`, `/provider/x=1`, `/output/x=1`, `/protocol/x=1`),

		{"the two violations of section 8.3.1", []string{`/capability_type="invalid_type"`, `/endpoint/method="PATCH"`}, []string{"/capability_type", "/endpoint/method"}},

		// Types.
		invalid("/id", `/id=7`), invalid("/id", `/id=""`), invalid("/name", `/name=null`), invalid("/description", `/description={}`),
		invalid("/provider", `/provider="Acme"`), invalid("/endpoint", `/endpoint="https://x"`), invalid("/inputs", `/inputs={}`),
		invalid("/output", `/output="application/json"`), invalid("/auth", `/auth="none"`), invalid("/protocol", `/protocol="1.0.0"`),
		invalid("/tags", `/tags="a"`), invalid("/tags/0", `/tags=[1]`),
		invalid("", `=[]`), invalid("", `="x"`), invalid("", `=null`), invalid("", `=1`),

		// Enumerations.
		invalid("/capability_type", `/capability_type="Api"`), invalid("/capability_type", `/capability_type="agent"`),
		invalid("/capability_type", `/capability_type=""`), invalid("/capability_type", `/capability_type=1`),
		invalid("/access", `/access="Public"`), invalid("/access", `/access="open"`), invalid("/access", `/access=""`), invalid("/access", `/access=1`),
		invalid("/endpoint/method", `/endpoint/method="post"`), invalid("/endpoint/method", `/endpoint/method="PATCH"`),
		invalid("/endpoint/method", `/endpoint/method="HEAD"`), invalid("/endpoint/method", `/endpoint/method=""`),

		// Endpoint.
		invalid("/endpoint/url", `-/endpoint/url`), invalid("/endpoint/method", `-/endpoint/method`),
		valid("only what an endpoint needs", `-/endpoint/content_type`, `-/endpoint/status_url`, `-/endpoint/result_url`),
		valid("status_url without the placeholder", `/endpoint/status_url="https://api.acme.example/status"`),
		valid("status_url with it in the query", `/endpoint/status_url="https://api.acme.example?run={execution_id}"`),
		valid("URL with a fragment", `/endpoint/url="https://api.acme.example/a#b"`),
		valid("URL with a port and an address", `/endpoint/url="HTTP://[2001:db8::1]:8080"`),
		invalid("/endpoint/status_url", `/endpoint/status_url="https://{execution_id}.acme.example/"`),
		invalid("/endpoint/status_url", `/endpoint/status_url="https://acme.example{execution_id}/"`),
		invalid("/endpoint/status_url", `/endpoint/status_url="https://acme.example:{execution_id}/"`),
		invalid("/endpoint/result_url", `/endpoint/result_url="https://{execution_id}@acme.example/"`),
		invalid("/endpoint/result_url", `/endpoint/result_url="{execution_id}://acme.example/"`),
		invalid("/endpoint/result_url", `/endpoint/result_url="{execution_id}"`),
		invalid("/endpoint/status_url", `/endpoint/status_url=""`), invalid("/endpoint/result_url", `/endpoint/result_url="/result"`),
		valid("timeout_ms", `/endpoint/timeout_ms=30000`), valid("fraction of a millisecond", `/endpoint/timeout_ms=0.5`),
		invalid("/endpoint/timeout_ms", `/endpoint/timeout_ms="30000"`), invalid("/endpoint/timeout_ms", `/endpoint/timeout_ms=null`),
		invalid("/endpoint/timeout_ms", `/endpoint/timeout_ms=0`), invalid("/endpoint/timeout_ms", `/endpoint/timeout_ms=-1`),
		valid("retry", `/endpoint/retry={"max_attempts":3,"backoff_ms":1000}`), valid("empty retry", `/endpoint/retry={}`),
		invalid("/endpoint/retry", `/endpoint/retry=3`), invalid("/endpoint/retry/max_attempts", `/endpoint/retry={"max_attempts":"3","backoff_ms":1}`),
		invalid("/endpoint/retry/max_attempts", `/endpoint/retry={"max_attempts":-1}`), invalid("/endpoint/retry/backoff_ms", `/endpoint/retry={"backoff_ms":-1}`),
		valid("JSON by its suffix", `/endpoint/content_type="application/vnd.acme+json; v=2"`), valid("JSON in another case", `/endpoint/content_type="Application/JSON"`),
		valid("no JSON", `/endpoint/content_type="text/xml"`), valid("almost JSON", `/endpoint/content_type="application/jsonp"`),
		invalid("/endpoint/content_type", `/endpoint/content_type=""`), invalid("/endpoint/content_type", `/endpoint/content_type="json"`),
		invalid("/endpoint/content_type", `/endpoint/content_type="application/json; a=\"x\r\nEvil: 1\""`),

		// Sub-structures.
		invalid("/protocol/version", `-/protocol/version`), invalid("/protocol/version", `/protocol/version="1.0"`), invalid("/protocol/changelog_url", `/protocol/changelog_url=null`),
		invalid("/provider/name", `-/provider/name`), invalid("/output/content_type", `-/output/content_type`), invalid("/output/schema", `/output/schema=true`),
		valid("no inputs", `/inputs=[]`), valid("type of their own", `/inputs/0/type="file"`),
		invalid("/inputs/0/name", `-/inputs/0/name`), invalid("/inputs/0/type", `-/inputs/0/type`), invalid("/inputs/0/description", `-/inputs/0/description`),
		invalid("/inputs/0/required", `-/inputs/0/required`), invalid("/inputs/0/required", `/inputs/0/required="true"`),
		invalid("/inputs/1/name", `/inputs/1/name="location"`), invalid("/inputs/1", `/inputs/1=null`),
		valid("default null", `/inputs/0/default=null`), valid("default false", `/inputs/0/default=false`),
		valid("schema", `/inputs/0/schema={"type":"string","maxLength":5}`), invalid("/inputs/0/schema", `/inputs/0/schema="string"`),

		// Authentication.
		invalid("/auth/type", `-/auth/type`), invalid("/auth/type", `/auth/type="basic"`),
		valid("API key with its header", `/auth={"type":"api_key","header":"X-API-Key"}`), valid("API key without", `/auth={"type":"api_key"}`),
		valid("API key as a bearer token", `/auth={"type":"api_key","header":"Authorization"}`),
		valid("OAuth 2.0", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`), valid("no scopes", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `/auth/oauth2/scopes={}`),
		invalid("/auth/oauth2", `/auth={"type":"oauth2"}`),
		invalid("/auth/oauth2/authorization_url", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `-/auth/oauth2/authorization_url`),
		invalid("/auth/oauth2/token_url", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `-/auth/oauth2/token_url`),
		invalid("/auth/oauth2/scopes", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `-/auth/oauth2/scopes`),
		invalid("/auth/oauth2/scopes", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `/auth/oauth2/scopes=["a"]`),
		invalid("/auth/oauth2/scopes/a", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `/auth/oauth2/scopes={"a":1}`),
		invalid("/auth/oauth2/token_url", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `/auth/oauth2/token_url="ftp://a/b"`),
		invalid("/auth/oauth2/authorization_url", `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `/auth/oauth2/authorization_url="login"`),
		valid("OAuth 2.0 that is not used", `/auth={"type":"none","oauth2":`+oauth2Object+`}`),
		valid("custom", `/auth={"type":"custom","custom":`+customObject+`}`),
		invalid("/auth/custom", `/auth={"type":"custom"}`),
		invalid("/auth/custom/parameters", `/auth={"type":"custom","custom":{"instructions":"x"}}`),
		invalid("/auth/custom/instructions", `/auth={"type":"custom","custom":{"parameters":[]}}`),
	}
	for _, member := range []string{"protocol", "id", "name", "version", "capability_type", "description", "provider", "endpoint", "inputs", "output", "auth", "access"} {
		cases = append(cases, invalid("/"+member, "-/"+member))
	}
	for _, version := range []string{"1.0.0", "2.3.1", "0.1.0", "10.20.30", "1.0.0-beta.1+build.5", "18446744073709551617.0.0"} {
		cases = append(cases, valid("version "+version, fmt.Sprintf("/version=%q", version)))
	}
	for _, version := range []string{"1", "1.0", "v1.0.0", "1.0.0.0", "", "latest", "1.0.x", "-1.0.0", " 1.0.0", "01.0.0", "1.0.0\\n", "1.0.0-", "1.0.0-01", "1.0.0+", "1.0.0-a..b"} {
		cases = append(cases, invalid("/version", `/version="`+version+`"`))
	}
	urls := []string{
		"", "/relative", "ftp://x/y", "javascript:alert(1)", "file:///etc/passwd", "https://", "https://:443/", "https:acme.example", "//acme.example/",
		"https://user@acme.example/", "https://user:secret@acme.example/", "https://acme.example:0/", "https://acme.example:70000/", "https://acme.example:http/",
		"https://acme.example/a b", "https://acme.example/a\\nb", "https://acme.example/\\u0000", "https://acme.example/\\u0085", "https://acme.example/\\u2028",
		"https://acme.example/%zz", "https://[::1/", "https://acme.example/" + strings.Repeat("a", 2028),
	}
	for _, u := range urls {
		cases = append(cases, invalid("/endpoint/url", `/endpoint/url="`+u+`"`))
	}
	cases = append(cases, valid("URL as long as can be", `/endpoint/url="https://acme.example/`+strings.Repeat("a", 2027)+`"`))
	for _, header := range []string{"X Key", `X-Key\r\nEvil: 1`, "", "X:Key", "Schlüssel", strings.Repeat("x", 129), "Host", "transfer-encoding", "COOKIE", "x-forwarded-for", "If-None-Match"} {
		cases = append(cases, invalid("/auth/header", `/auth={"type":"api_key","header":"`+header+`"}`))
	}
	return cases
}

func indexCases() []documentCase {
	cases := []documentCase{
		valid("as it is"), valid("no skills", `/skills=[]`), valid("unknown members", `/next="x"`, `/skills/0/tags=["a"]`),
		valid("ids that differ in case", `/skills/1/id="Acme/Forecast"`), valid("a name used twice", `/skills/1/name="Forecast"`),
		valid("descriptor on another host", `/skills/0/descriptor_url="https://cdn.example.net/a.json"`),
		valid("newer MAJOR", `/protocol/version="2.0.0"`),
		invalid("/protocol", `-/protocol`), invalid("/provider", `-/provider`), invalid("/skills", `-/skills`), invalid("/provider/name", `-/provider/name`),
		invalid("/skills/1/id", `/skills/1/id="acme/forecast"`), invalid("/skills/0/id", `/skills/0/id=""`), invalid("/skills/0/version", `/skills/0/version="1"`),
		invalid("/skills/0/capability_type", `/skills/0/capability_type="agent"`), invalid("/skills/0/descriptor_url", `/skills/0/descriptor_url="/skills/a.json"`),
		invalid("/skills/1", `/skills/1=7`), invalid("", `=[]`), invalid("/protocol/version", `/protocol/version="1"`),
	}
	for _, member := range []string{"id", "name", "capability_type", "description", "descriptor_url", "access", "version"} {
		cases = append(cases, invalid("/skills/0/"+member, "-/skills/0/"+member))
	}
	return cases
}

func pointersOf(violations []run.Violation) []string {
	var pointers []string
	for _, v := range violations {
		pointers = append(pointers, v.Path)
	}
	return pointers
}

func TestValidate(t *testing.T) {
	request := `{"caller":{"id":"a","type":"service"},"skill_id":"acme/forecast","inputs":{}}`
	response := `{"execution_id":"run-1","status":"accepted","skill_id":"acme/forecast","timestamps":{"created_at":"2025-07-01T12:00:00Z","updated_at":"2025-07-01T12:00:00Z"}}`
	requests := []documentCase{
		valid("as it is"), valid("caller of any type", `/caller/type="agent"`),
		valid("everything", `/caller/credentials={}`, `/context={"trace_id":"t","priority":"low","timeout_ms":5}`),
		invalid("/caller", `-/caller`), invalid("/skill_id", `-/skill_id`), invalid("/inputs", `-/inputs`), invalid("/inputs", `/inputs=[]`),
		invalid("/context/priority", `/context={"priority":"urgent"}`), invalid("/caller/id", `-/caller/id`), invalid("/context/timeout_ms", `/context={"timeout_ms":"5"}`),
	}
	responses := []documentCase{
		valid("accepted"), valid("running", `/status="running"`), valid("completed", `/status="completed"`), valid("failed", `/status="failed"`), valid("timeout", `/status="timeout"`),
		valid("any output", `/output=[null,1,"x",{"a":false}]`), valid("error", `/error={"code":"X","message":"m","details":[1],"retry":{"max_attempts":1}}`),
		invalid("/status", `/status="queued"`), invalid("/execution_id", `-/execution_id`), invalid("/status", `-/status`), invalid("/skill_id", `-/skill_id`),
		invalid("/timestamps", `-/timestamps`), invalid("/timestamps/updated_at", `-/timestamps/updated_at`), invalid("/error/message", `/error={"code":"X"}`),
		invalid("/error/retry/max_attempts", `/error={"code":"X","message":"m","retry":{"max_attempts":"1"}}`),
	}
	parameter := `{"name":"a","type":"string","description":"","required":true}`
	for _, group := range []struct {
		definition string
		document   string
		cases      []documentCase
	}{
		{"SkillDescriptor", forecast, descriptorCases()},
		{"SkillIndex", acmeIndex, indexCases()},
		{"InvocationRequest", request, requests},
		{"InvocationResponse", response, responses},
		{
			"SkillIndexEntry", `{"id":"a","name":"","capability_type":"api","description":"","descriptor_url":"http://a/b","access":"public","version":"1.0.0"}`,
			[]documentCase{valid("as it is"), invalid("/version", `/version="1"`)},
		},
		{"ProtocolVersion", `{"version":"1.0.0"}`, []documentCase{valid("as it is"), invalid("/version", `/version="1"`)}},
		{"CapabilityType", `"api"`, []documentCase{valid("as it is"), invalid("", `="x"`)}},
		{"AccessPolicy", `"public"`, []documentCase{valid("as it is"), invalid("", `="x"`)}},
		{"AuthType", `"none"`, []documentCase{valid("as it is"), invalid("", `="x"`)}},
		{"ExecutionStatus", `"timeout"`, []documentCase{valid("as it is"), invalid("", `="x"`)}},
		{"ParameterDefinition", parameter, []documentCase{valid("as it is"), invalid("/name", `/name=1`)}},
		{"AuthConfig", `{"type":"none"}`, []documentCase{valid("as it is"), invalid("/type", `/type="x"`)}},
		{"InvocationEndpoint", `{"url":"https://a/","method":"GET"}`, []documentCase{valid("as it is"), invalid("/method", `/method="x"`)}},
		{"OutputDefinition", `{"content_type":"text/plain"}`, []documentCase{valid("as it is"), invalid("/description", `/description=1`)}},
	} {
		for _, c := range group.cases {
			t.Run(group.definition+"/"+c.name, func(t *testing.T) {
				found := document.Validate(group.definition, edited(t, group.document, c.edits...))
				if pointers := pointersOf(found); !slices.Equal(pointers, c.pointers) {
					t.Fatalf("violations at %q, want %q: %+v", pointers, c.pointers, found)
				}
				for _, v := range found {
					if v.Message == "" || strings.Contains(v.Message, "\n") {
						t.Errorf("message %q", v.Message)
					}
				}
			})
		}
	}
}

// Section 8.3.1 prints these very violations.
func TestViolationsOfTheSpecification(t *testing.T) {
	got, err := json.Marshal(document.Validate("SkillDescriptor", edited(t, forecast, `/capability_type="invalid_type"`, `/endpoint/method="PATCH"`)))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"path":"/capability_type","message":"must be equal to one of the allowed values","expected":["plugin","api","knowledge","task"],"actual":"invalid_type"},` +
		`{"path":"/endpoint/method","message":"must be equal to one of the allowed values","expected":["GET","POST","PUT","DELETE"],"actual":"PATCH"}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestViolationSaysWhatWasExpectedAndFound(t *testing.T) {
	for _, c := range []struct{ edit, message, expected, actual string }{
		{`/id=7`, "must be a string", `"string"`, `"number"`},
		{`/inputs={}`, "must be an array", `"array"`, `"object"`},
		{`/name=null`, "must be a string", `"string"`, `"null"`},
		{`-/name`, "is required", `"required"`, `"missing"`},
		{`/id=""`, "must not be empty", `"at least 1 character"`, `""`},
		{`/version="1"`, "must be a version of the form MAJOR.MINOR.PATCH (Semantic Versioning 2.0.0)", `"MAJOR.MINOR.PATCH"`, `"1"`},
		{`/access={"a":1}`, "must be equal to one of the allowed values", `["public","restricted","private"]`, `"object"`},
		{`/access="` + strings.Repeat("é", 200) + `"`, "must be equal to one of the allowed values", `["public","restricted","private"]`, `"` + strings.Repeat("é", 128) + `…"`},
		{`/endpoint/timeout_ms=0`, "must be greater than 0", `"greater than 0"`, `0`},
		{`/endpoint/url="x"`, "must be an absolute http or https URL with a host", `"an absolute http or https URL"`, `"x"`},
		{`/endpoint/status_url="https://{execution_id}.acme.example/"`, "must have {execution_id} only in its path or query: the execution id must not choose the host", `"an absolute http or https URL"`, `"https://{execution_id}.acme.example/"`},
		{`/auth/header="Host"`, "must not name a header that belongs to the connection, the body or routing", `"a header for credentials, such as X-API-Key"`, `"Host"`},
		{`/inputs/1/name="location"`, "must be unique, but /inputs/0/name is the same", `"a unique name"`, `"location"`},
	} {
		found := document.Validate("SkillDescriptor", edited(t, forecast, c.edit))
		if len(found) != 1 {
			t.Errorf("%s: %d violations: %+v", c.edit, len(found), found)
			continue
		}
		if v := found[0]; v.Message != c.message || string(v.Expected) != c.expected || string(v.Actual) != c.actual {
			t.Errorf("%s: got %s, expected %s, actual %s", c.edit, v.Message, v.Expected, v.Actual)
		}
	}
}

// What is no JSON, or JSON that two readers might read differently.
func TestValidateText(t *testing.T) {
	insert := func(text string) string { return strings.Replace(forecast, `"access"`, text+`, "access"`, 1) }
	for _, c := range []struct{ name, doc, pointer, message string }{
		{"empty", "", "", "is empty"},
		{"spaces", " \n", "", "is empty"},
		{"HTML", "<html>", "", "is not JSON: "},
		{"cut off", forecast[:len(forecast)-2], "", "is not JSON: "},
		{"more after it", forecast + "{}", "", "is not JSON: there is more after the value"},
		{"comma at the end", "{\n\"é\":1,}", "", "is not JSON: line 2, column 6: "},
		{"member twice", insert(`"id":"b"`), "/id", "must not appear twice in one object"},
		{"member twice, deep", insert(`"x":{"a~b":[{"c":1,"c":2}]}`), "/x/a~0b/0/c", "must not appear twice in one object"},
		{"bad UTF-8", insert("\"x\":\"\xff\""), "/x", "must be valid UTF-8"},
		{"lone surrogate", insert(`"x":"\ud800"`), "/x", "must be valid UTF-8"},
		{"number out of range", insert(`"x":[1e400]`), "/x/0", "must be a number within the range of a double"},
		{"number without end", insert(`"x":1e999999999999`), "/x", "must be a number within the range of a double"},
		{"number of many digits", insert(`"x":0.` + strings.Repeat("1", 1024)), "/x", "must be a number within the range of a double"},
		{"nested too deep", insert(`"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)), "/x" + strings.Repeat("/0", 99), "must not be nested more than 100 levels deep"},
		{"too many values", `[` + strings.Repeat("0,", 200_000) + `0]`, "", "must have at most 200000 values in all"},
		{"too long", `"` + strings.Repeat("x", 512<<10) + `"`, "", "must have at most 512KiB (limits schema_size)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := document.Validate("SkillDescriptor", []byte(c.doc))
			if len(found) != 1 || found[0].Path != c.pointer || !strings.HasPrefix(found[0].Message, c.message) {
				t.Errorf("got %+v, want one at %q: %s", found, c.pointer, c.message)
			}
		})
	}
	if found := document.Validate("SkillDescriptor", []byte(insert(`"x":[0e500,-0E-999999999999999999999,0.`+strings.Repeat("0", 2000)+`]`))); found != nil {
		t.Errorf("zeros: %+v", found)
	}
	if found := document.Validate("SkillDescriptor", []byte("\ufeff"+forecast)); found != nil {
		t.Errorf("byte order mark: %+v", found)
	}
	if found := document.Validate("SkillDescriptor", []byte(insert(`"x":`+strings.Repeat("[", 99)+strings.Repeat("]", 99)))); found != nil {
		t.Errorf("nested as deep as may be: %+v", found)
	}
}

func TestViolationsAreBoundedAndOrdered(t *testing.T) {
	var scopes []string
	for i := range 1000 {
		scopes = append(scopes, fmt.Sprintf(`"s%d":%d`, i, i))
	}
	doc := edited(t, forecast, `/auth={"type":"oauth2","oauth2":`+oauth2Object+`}`, `/auth/oauth2/scopes={`+strings.Join(scopes, ",")+`}`, `/inputs=[`+strings.Repeat("{},", 99)+`{}]`)
	found := document.Validate("SkillDescriptor", doc)
	if len(found) != 50 || !slices.IsSorted(pointersOf(found)) {
		t.Errorf("%d violations, at %q", len(found), pointersOf(found))
	}
	for range 20 {
		if again := document.Validate("SkillDescriptor", doc); !slices.Equal(pointersOf(again), pointersOf(found)) {
			t.Fatalf("another order: %q, then %q", pointersOf(found), pointersOf(again))
		}
	}
	long := strings.Repeat("n", 3000)
	for _, v := range document.Validate("SkillDescriptor", []byte(`{"`+long+`":1,"`+long+`":2}`)) {
		if len(v.Path) > 1100 {
			t.Errorf("a path of %d bytes", len(v.Path))
		}
	}
}

func TestIDsAreBounded(t *testing.T) {
	for n, valid := range map[int]bool{512: true, 513: false} {
		entry := `{"id":"` + strings.Repeat("x", n) + `","name":"n","capability_type":"api","description":"d","descriptor_url":"https://a.example/s","access":"public","version":"1.0.0"}`
		if got := document.Validate("SkillIndex", edited(t, acmeIndex, "/skills=["+entry+"]")); (got == nil) != valid {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
}
