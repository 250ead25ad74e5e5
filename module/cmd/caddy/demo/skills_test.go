package demo_test

import (
	"bytes"
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	runTime = 20 * time.Millisecond
	longest = 15 * time.Second
)

const essay = `Bees pollinate flowers. The weather was fine on Tuesday. Without bees, many flowers would not be pollinated, and
farmers would lose crops. Farmers therefore keep bees near their crops. Somebody sneezed.`

func TestSummarizeIsAsynchronousWithItsOutputAtTheResult(t *testing.T) {
	s := start(t, runTime)
	accepted := s.invoke("summarize", `{"text": `+quote(t, essay)+`, "sentences": 2}`)
	first := decode[report](t, accepted)
	if accepted.status != http.StatusAccepted || first.Status != "accepted" || first.SkillID != "demo/summarize" || first.ExecutionID == "" {
		t.Fatalf("got %d %s", accepted.status, accepted.body)
	}
	if first.Timestamps.CreatedAt.IsZero() || !first.Timestamps.CompletedAt.IsZero() {
		t.Errorf("timestamps of an accepted run: %s", accepted.body)
	}

	last := s.finish(first.ExecutionID)
	if last.Status != "completed" || last.Output != nil || last.Timestamps.CompletedAt.IsZero() {
		t.Errorf("status: %+v, want completed without output", last)
	}
	result := decode[report](t, s.do(http.MethodGet, "/executions/"+first.ExecutionID+"/result", ""))
	output := decodeValue[struct {
		Summary         string `json:"summary"`
		Sentences       int    `json:"sentences"`
		SentencesInText int    `json:"sentences_in_text"`
	}](t, result.Output)
	if want := "Bees pollinate flowers. Farmers therefore keep bees near their crops."; output.Summary != want {
		t.Errorf("summary = %q, want %q", output.Summary, want)
	}
	if output.Sentences != 2 || output.SentencesInText != 5 {
		t.Errorf("counts: %s", result.Output)
	}
}

func TestSummaryDoesNotRepeatItself(t *testing.T) {
	s := start(t, runTime)
	for text, want := range map[string]string{
		"Cats purr. Cats purr. Dogs bark.": "Cats purr. Dogs bark.",
		"One line\nwraps here.\n\nNo stop": "One line wraps here. No stop",
		"狗叫。":                              "狗叫。",
		" \n\t\n\n ":                       "",
	} {
		first := decode[report](t, s.invoke("summarize", `{"text": `+quote(t, text)+`, "sentences": 2}`))
		s.finish(first.ExecutionID)
		result := decode[report](t, s.do(http.MethodGet, "/executions/"+first.ExecutionID+"/result", ""))
		got := decodeValue[map[string]any](t, result.Output)["summary"]
		if got != want {
			t.Errorf("summary of %q = %q, want %q", text, got, want)
		}
	}
}

func TestRetryAfterIsSentWhileASlowRunGoesOn(t *testing.T) {
	s := start(t, longest)
	accepted := s.invoke("summarize", `{"text": "One."}`)
	if got := accepted.header.Get("Retry-After"); got != "1" {
		t.Errorf("invocation: Retry-After = %q, want 1", got)
	}
	id := decode[report](t, accepted).ExecutionID
	for _, path := range []string{"/executions/" + id, "/executions/" + id + "/result"} {
		got := s.do(http.MethodGet, path, "")
		if got.status != http.StatusOK || got.header.Get("Retry-After") != "1" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s: %d %v", path, got.status, got.header)
		}
		if status := decode[report](t, got).Status; status != "accepted" && status != "running" {
			t.Errorf("GET %s: status %s", path, status)
		}
	}
}

func TestTimeoutOfTheCallerEndsTheRun(t *testing.T) {
	s := start(t, longest)
	body := strings.TrimSuffix(invocation("summarize", `{"text": "One."}`), "}") + `, "context": {"timeout_ms": 5}}`
	first := decode[report](t, s.do(http.MethodPost, "/skills/summarize/executions", body))
	last := s.finish(first.ExecutionID)
	if last.Status != "timeout" || last.Error == nil || last.Error.Code != "INVOCATION_TIMEOUT" {
		t.Fatalf("got %+v", last)
	}
	details := decodeValue[struct {
		TimeoutMS   int    `json:"timeout_ms"`
		ExecutionID string `json:"execution_id"`
	}](t, last.Error.Details)
	if details.TimeoutMS != 5 || details.ExecutionID != first.ExecutionID || last.Error.Retry == nil {
		t.Errorf("error = %+v", last.Error)
	}
}

func TestMarkdownIsImmediateAndSafe(t *testing.T) {
	s := start(t, runTime)
	got := s.invoke("markdown", `{"markdown": "# Hi\n\n<script>x</script>\n\n[l](javascript:x) *b*"}`)
	r := decode[report](t, got)
	if got.status != http.StatusOK || r.Status != "completed" || r.Timestamps.CompletedAt.IsZero() {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	html := decodeValue[struct {
		HTML string `json:"html"`
	}](t, r.Output).HTML
	if !strings.Contains(html, "<h1>Hi</h1>") || !strings.Contains(html, "<em>b</em>") {
		t.Errorf("html = %q", html)
	}
	if strings.Contains(html, "<script") || strings.Contains(html, "javascript:") {
		t.Errorf("unsafe html = %q", html)
	}
	if again := s.finish(r.ExecutionID); again.Status != "completed" || again.Output == nil {
		t.Errorf("status of an immediate run: %+v", again)
	}
}

func TestMarkdownOutputIsBounded(t *testing.T) {
	s := start(t, runTime)
	bomb := "[a]: /" + strings.Repeat("x", 10_000) + "\n\n" + strings.Repeat("[a]", 3_000)
	r := decode[report](t, s.invoke("markdown", `{"markdown": `+quote(t, bomb)+`}`))
	if r.Status != "failed" || r.Error == nil || r.Error.Code != "OUTPUT_TOO_LARGE" {
		t.Errorf("got %+v", r)
	}
}

func TestQRCodeNeedsTheKeyAndDrawsAPNG(t *testing.T) {
	s := start(t, runTime)
	key := []string{"X-API-Key", apiKey}

	accepted := s.invoke("qr-code", `{"text": "https://example.com/", "scale": 4}`, key...)
	if accepted.status != http.StatusAccepted {
		t.Fatalf("got %d %s", accepted.status, accepted.body)
	}
	last := s.finish(decode[report](t, accepted).ExecutionID, key...)
	output := decodeValue[struct {
		MediaType  string `json:"media_type"`
		DataBase64 []byte `json:"data_base64"`
		Width      int    `json:"width"`
	}](t, last.Output)
	image, err := png.Decode(bytes.NewReader(output.DataBase64))
	if err != nil {
		t.Fatal(err)
	}
	if output.MediaType != "image/png" || image.Bounds().Dx() != output.Width || output.Width%4 != 0 {
		t.Errorf("%s, width %d, image %v", output.MediaType, output.Width, image.Bounds())
	}

	for name, header := range map[string][]string{"no key": nil, "wrong key": {"X-API-Key", "guess"}} {
		t.Run(name, func(t *testing.T) {
			for _, got := range []answer{
				s.invoke("qr-code", `{"text": "x"}`, header...),
				s.do(http.MethodGet, "/executions/"+last.ExecutionID, "", header...),
				s.do(http.MethodGet, "/executions/"+last.ExecutionID+"/result", "", header...),
			} {
				details := decodeValue[map[string]string](t, wantProblem(t, got, http.StatusUnauthorized, "AUTH_REQUIRED"))
				if details["required_auth_type"] != "api_key" || details["header"] != "X-API-Key" || got.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%v %v", details, got.header)
				}
			}
		})
	}
}

func TestDiffNeedsATokenWithItsScope(t *testing.T) {
	s := start(t, runTime)
	const inputs = `{"old": "a\nb\n", "new": "a\nc\n"}`

	got := s.invoke("diff", inputs, "Authorization", s.token())
	r := decode[report](t, got)
	output := decodeValue[struct {
		Diff    string `json:"diff"`
		Changed bool   `json:"changed"`
	}](t, r.Output)
	if want := "--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"; output.Diff != want || !output.Changed {
		t.Errorf("diff = %q, want %q", output.Diff, want)
	}

	for name, token := range map[string]string{"none": "", "other scheme": "Basic eDp5", "unknown": "Bearer abc", "empty": "Bearer "} {
		t.Run(name, func(t *testing.T) {
			var header []string
			if token != "" {
				header = []string{"Authorization", token}
			}
			got := s.invoke("diff", inputs, header...)
			details := decodeValue[map[string]any](t, wantProblem(t, got, http.StatusUnauthorized, "AUTH_REQUIRED"))
			if details["required_auth_type"] != "oauth2" || details["token_url"] != s.origin+"/token" {
				t.Errorf("details = %v", details)
			}
			if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("WWW-Authenticate = %q", got.header.Get("WWW-Authenticate"))
			}
		})
	}

	wantProblem(t, s.do(http.MethodGet, "/executions/"+r.ExecutionID, ""), http.StatusUnauthorized, "AUTH_REQUIRED")
}

func TestCSVFailsAsARun(t *testing.T) {
	s := start(t, runTime)
	good := s.finish(decode[report](t, s.invoke("csv-to-json", `{"csv": "name,age\nAda,36\n"}`)).ExecutionID)
	if want := `{"columns":["name","age"],"rows":[["Ada","36"]]}`; compact(t, good.Output) != want {
		t.Errorf("output = %s, want %s", good.Output, want)
	}

	bad := s.invoke("csv-to-json", `{"csv": "name,age\nAda,\"36\n"}`)
	if bad.status != http.StatusAccepted {
		t.Fatalf("got %d %s", bad.status, bad.body)
	}
	last := s.finish(decode[report](t, bad).ExecutionID)
	if last.Status != "failed" || last.Error == nil || last.Error.Code != "CSV_ERROR" || last.Output != nil {
		t.Fatalf("got %+v", last)
	}
	if want := `{"column":9,"line":2,"reason":"extraneous or missing \" in quoted-field"}`; compact(t, last.Error.Details) != want {
		t.Errorf("details = %s, want %s", last.Error.Details, want)
	}
}

func TestTelepathyIsForALaterProtocol(t *testing.T) {
	s := start(t, runTime)
	details := decodeValue[map[string]string](t, wantProblem(t, s.invoke("telepathy", `{"thought": "x"}`), http.StatusUnprocessableEntity, "VERSION_INCOMPATIBLE"))
	if details["descriptor_version"] != "2.0.0" {
		t.Errorf("details = %v", details)
	}
}

// Runs survive a reload.
func TestRunsSurviveAReload(t *testing.T) {
	s := start(t, runTime)
	accepted := decode[report](t, s.invoke("summarize", `{"text": "One. Two. Three."}`))
	if err := caddy.Load([]byte(s.config), true); err != nil {
		t.Fatal(err)
	}
	s.reconnect()
	if last := s.finish(accepted.ExecutionID); last.Status != "completed" {
		t.Errorf("got %+v", last)
	}
}
