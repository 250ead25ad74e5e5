package demo_test

import (
	"bytes"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const essay = `Bees pollinate flowers. The weather was fine on Tuesday. Without bees, many flowers would not be pollinated, and
farmers would lose crops. Farmers therefore keep bees near their crops. Somebody sneezed.`

func TestSummaries(t *testing.T) {
	s := start(t)
	for text, want := range map[string]string{
		essay:                              `{"sentences":2,"sentences_in_text":5,"summary":"Bees pollinate flowers. Farmers therefore keep bees near their crops."}`,
		"Cats purr. Cats purr. Dogs bark.": `{"sentences":2,"sentences_in_text":3,"summary":"Cats purr. Dogs bark."}`,
		"One line\nwraps here.\n\nNo stop": `{"sentences":2,"sentences_in_text":2,"summary":"One line wraps here. No stop"}`,
		"狗叫。":                              `{"sentences":1,"sentences_in_text":1,"summary":"狗叫。"}`,
		" \n\t\n\n ":                       `{"sentences":0,"sentences_in_text":0,"summary":""}`,
	} {
		got := s.call("summarize", `{"text": `+quote(t, text)+`, "sentences": 2}`)
		if decode[map[string]any](t, got); !sameJSON(t, got.body, want) {
			t.Errorf("summary of %q = %s, want %s", text, got.body, want)
		}
	}
}

func TestMarkdownIsSafe(t *testing.T) {
	s := start(t)
	html := decode[struct {
		HTML string `json:"html"`
	}](t, s.call("markdown", `{"markdown": "# Hi\n\n<script>x</script>\n\n[l](javascript:x) *b*"}`)).HTML
	if !strings.Contains(html, "<h1>Hi</h1>") || !strings.Contains(html, "<em>b</em>") {
		t.Errorf("html = %q", html)
	}
	if strings.Contains(html, "<script") || strings.Contains(html, "javascript:") {
		t.Errorf("unsafe html = %q", html)
	}
	bomb := "[a]: /" + strings.Repeat("x", 10_000) + "\n\n" + strings.Repeat("[a]", 3_000)
	wantFailure(t, s.call("markdown", `{"markdown": `+quote(t, bomb)+`}`), http.StatusBadRequest, "OUTPUT_TOO_LARGE")
}

func TestQRCodeNeedsTheKeyAndDrawsAPNG(t *testing.T) {
	s := start(t)
	output := decode[struct {
		MediaType  string `json:"media_type"`
		DataBase64 []byte `json:"data_base64"`
		Width      int    `json:"width"`
	}](t, s.call("qr-code", `{"text": "https://example.com/", "scale": 4}`, "X-API-Key", apiKey))
	image, err := png.Decode(bytes.NewReader(output.DataBase64))
	if err != nil {
		t.Fatal(err)
	}
	if output.MediaType != "image/png" || image.Bounds().Dx() != output.Width || output.Width%4 != 0 {
		t.Errorf("%s, width %d, image %v", output.MediaType, output.Width, image.Bounds())
	}
	for _, key := range []string{"", "guess"} {
		got := s.call("qr-code", `{"text": "x"}`, "X-API-Key", key)
		if wantFailure(t, got, http.StatusUnauthorized, "AUTH_REQUIRED"); got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %v", key, got.header)
		}
	}
}

func TestDiffNeedsAToken(t *testing.T) {
	s := start(t)
	const inputs = `{"old": "a\nb\n", "new": "a\nc\n"}`
	got := s.call("diff", inputs, "Authorization", s.token())
	if want := `{"diff":"--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n","changed":true}`; got.status != http.StatusOK || !sameJSON(t, got.body, want) {
		t.Errorf("%d %s, want %s", got.status, got.body, want)
	}
	for _, token := range []string{"", "Basic eDp5", "Bearer abc", "Bearer "} {
		got := s.call("diff", inputs, "Authorization", token)
		if wantFailure(t, got, http.StatusUnauthorized, "AUTH_REQUIRED"); !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%q: %v", token, got.header)
		}
	}
}

func TestCSV(t *testing.T) {
	s := start(t)
	if got := s.call("csv-to-json", `{"csv": "name,age\nAda,36\n"}`); !sameJSON(t, got.body, `{"columns":["name","age"],"rows":[["Ada","36"]]}`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	details := wantFailure(t, s.call("csv-to-json", `{"csv": "name,age\nAda,\"36\n"}`), http.StatusBadRequest, "CSV_ERROR")
	if want := `{"column":9,"line":2,"reason":"extraneous or missing \" in quoted-field"}`; !sameJSON(t, []byte(details), want) {
		t.Errorf("details = %s, want %s", details, want)
	}
}

func TestOtherRequests(t *testing.T) {
	s := start(t)
	for _, body := range []string{`{`, `[]`, `{"text": 1}`, `{"text": "` + strings.Repeat("x", 1<<20) + `"}`} {
		wantFailure(t, s.call("summarize", body), http.StatusBadRequest, "INVALID_INPUT")
	}
	for _, path := range []string{"/", "/summarize/", "/tokens", "/.well-known/skill-sharing"} {
		if got := s.do(http.MethodPost, path, "{}"); got.status != http.StatusNotFound {
			t.Errorf("POST %s: %d %s", path, got.status, got.body)
		}
	}
}

// TestOpenAPI: the document has the operations that there are, and says where tokens are.
func TestOpenAPI(t *testing.T) {
	s := start(t)
	var d struct {
		Paths map[string]struct {
			Post map[string]any `yaml:"post"`
		} `yaml:"paths"`
	}
	text := s.do(http.MethodGet, "/openapi.yaml", "").body
	if err := yaml.Unmarshal(text, &d); err != nil || len(d.Paths) != 5 {
		t.Fatalf("%v: %s", err, text)
	}
	for path, operations := range d.Paths {
		if got := s.do(http.MethodPost, path, "{"); operations.Post["operationId"] == nil || !slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized}, got.status) {
			t.Errorf("POST %s: %d %s", path, got.status, got.body)
		}
	}
	if !bytes.Contains(text, []byte(`"`+s.origin+`/token"`)) {
		t.Errorf("%s", text)
	}
}
