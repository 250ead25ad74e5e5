package front_test

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// The beginnings of files, with so much more that no short word could be one of them.
var (
	pngFile  = file("\x89PNG\r\n\x1a\n")
	jpegFile = file("\xff\xd8\xff\xe0")
	gifFile  = file("GIF89a")
	webpFile = file("RIFF\x00\x00\x00\x00WEBPVP8 ")
	wavFile  = file("RIFF\x00\x00\x00\x00WAVE")
	mp3File  = file("ID3\x03")
	flacFile = file("fLaC")
)

func file(beginning string) string {
	return base64.StdEncoding.EncodeToString([]byte(beginning + strings.Repeat("\xfb\xff\x00", 30)))
}

func bytesOf(mediaType, text string) front.Part {
	return front.Part{Kind: front.PartBytes, Text: text, MediaType: mediaType}
}

// TestMedia: an output that is an image or sound is a file, once, however it is written.
func TestMedia(t *testing.T) {
	urlSafe := strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(pngFile), "=")
	lines := pngFile[:20] + `\r\n` + pngFile[20:40] + `\n\t ` + pngFile[40:]
	for _, c := range []struct {
		name, output string
		want         []front.Part
	}{
		{"the form of the demo", `{"media_type":"image/png","data_base64":"` + pngFile + `"}`, []front.Part{bytesOf("image/png", pngFile)}},
		{"another order", `{"data":"` + pngFile + `","mimeType":"IMAGE/PNG; q=1"}`, []front.Part{bytesOf("image/png", pngFile)}},
		{"MCP's own form", `{"type":"image","data":"` + jpegFile + `","mimeType":"image/jpeg"}`, []front.Part{bytesOf("image/jpeg", jpegFile)}},
		{"another name of the type", `{"content_type":"image/jpg","encoding":"base64","base64":"` + jpegFile + `"}`, []front.Part{bytesOf("image/jpeg", jpegFile)}},
		{"with a name", `{"mime_type":"image/gif","data_base64":"` + gifFile + `","filename":"../a.gif"}`, []front.Part{{Kind: front.PartBytes, Text: gifFile, MediaType: "image/gif", Filename: "a.gif"}}},
		{"sound", `{"mediaType":"audio/x-wav","data":"` + wavFile + `"}`, []front.Part{bytesOf("audio/wav", wavFile)}},
		{"mp3", `{"mediaType":"audio/mp3","data":"` + mp3File + `"}`, []front.Part{bytesOf("audio/mpeg", mp3File)}},
		{"flac", `{"contentType":"audio/flac","data":"` + flacFile + `"}`, []front.Part{bytesOf("audio/flac", flacFile)}},
		{"in lines", `{"media_type":"image/png","data_base64":"` + lines + `"}`, []front.Part{bytesOf("image/png", pngFile)}},
		{"for URLs", `{"media_type":"image/png","data_base64":"` + urlSafe + `"}`, []front.Part{bytesOf("image/png", pngFile)}},
		{"escaped", `{"media_type":"image\/jpeg","data_base64":"` + strings.ReplaceAll(jpegFile, "/", `\/`) + `"}`, []front.Part{bytesOf("image/jpeg", jpegFile)}},
		{"a data URI", `"data:image/webp;base64,` + webpFile + `"`, []front.Part{bytesOf("image/webp", webpFile)}},
		{"a data URI with a parameter", `"DATA:image/png;charset=x;BASE64,` + lines + `"`, []front.Part{bytesOf("image/png", pngFile)}},
		{"a data URI with escapes", `"data:image/png;base64,` + url.QueryEscape(pngFile) + `"`, []front.Part{bytesOf("image/png", pngFile)}},
		{"a data URI with its type", `{"media_type":"image/png","data":"data:image/png;base64,` + pngFile + `"}`, []front.Part{bytesOf("image/png", pngFile)}},
		{"nothing but base64", `"` + pngFile + `"`, []front.Part{bytesOf("image/png", pngFile)}},
		{"a member", `{"n":1.50,"qr":"data:image/png;base64,` + pngFile + `"}`, []front.Part{data(`{"n":1.50,"qr":"(image/png, 98 bytes: attached)"}`), bytesOf("image/png", pngFile)}},
		{
			"with other members", `{"media_type":"image/png","data_base64":"` + pngFile + `","width":3}`,
			[]front.Part{data(`{"media_type":"image/png","data_base64":"(image/png, 98 bytes: attached)","width":3}`), bytesOf("image/png", pngFile)},
		},
		{
			"several", `{"a":[{"media_type":"image/png","data":"` + pngFile + `"},"` + gifFile + `"],"b":"` + jpegFile + `"}`,
			[]front.Part{data(`{"a":[{"media_type":"image/png","data":"(image/png, 98 bytes: attached)"},"(image/gif, 96 bytes: attached)"],"b":"(image/jpeg, 94 bytes: attached)"}`), bytesOf("image/png", pngFile), bytesOf("image/gif", gifFile), bytesOf("image/jpeg", jpegFile)},
		},

		{"another type", `{"media_type":"image/png","data":"` + jpegFile + `"}`, nil},
		{"text", `{"media_type":"image/png","data":"` + base64.StdEncoding.EncodeToString([]byte("<html>"+pngFile)) + `"}`, nil},
		{"not base64", `{"media_type":"image/png","data":"` + pngFile + `!"}`, nil},
		{"nothing", `{"media_type":"image/png","data":""}`, nil},
		{"SVG", `{"media_type":"image/svg+xml","data":"` + base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)) + `"}`, nil},
		{"a document", `{"media_type":"application/pdf","data":"` + pngFile + `"}`, nil},
		{"a data URI of another type", `"data:image/gif;base64,` + pngFile + `"`, nil},
		{"a data URI of text", `"data:text/plain;base64,` + pngFile + `"`, nil},
		{"a data URI without base64", `"data:image/png,` + pngFile + `"`, nil},
		{"a data URI that is cut", `"data:image/png;base64"`, nil},
		{"a word", `{"a":"R0lGODlh","b":"/9j/abc","image":"iVBORw0KGgo="}`, nil},
		{"a member of the name only", `{"image":"a.png","audio":[1,{"data":{}}]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.output
			want := c.want
			if want == nil {
				want = []front.Part{data(c.output)}
			}
			got := front.Parts(jsontext.Value(c.output), "application/json")
			if !slices.EqualFunc(got, want, equal) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			for i := range got {
				if got[i].Kind == front.PartBytes && got[i].Media() == "" {
					t.Errorf("part %d is no media", i)
				}
			}
			if c.output != before {
				t.Error("the output has changed")
			}
		})
	}
	for _, c := range []struct {
		name, contentType, output string
		want                      front.Part
	}{
		{"in lines", "image/png", `"` + lines + `"`, bytesOf("image/png", pngFile)},
		{"for URLs", "image/png", `"` + urlSafe + `"`, bytesOf("image/png", pngFile)},
		{"a data URI", "image/png", `"data:image/png;base64,` + pngFile + `"`, bytesOf("image/png", pngFile)},
		{"a data URI as text", "text/plain", `"data:image/png;base64,` + pngFile + `"`, bytesOf("image/png", pngFile)},
		{"text", "text/plain", `"` + pngFile + `"`, text(pngFile)},
		{"an object", "image/png", `{"data_base64":"` + urlSafe + `","mime_type":"image/png"}`, bytesOf("image/png", pngFile)},
		{"an element", "multipart/mixed", `["data:image/png;base64,` + pngFile + `"]`, bytesOf("image/png", pngFile)},
		{"another type of JSON", "application/vnd.x+json", `"data:image/png;base64,` + pngFile + `"`, bytesOf("image/png", pngFile)},
	} {
		if got := front.Parts(jsontext.Value(c.output), c.contentType); len(got) != 1 || !equal(got[0], c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestMediaIsBounded: of an output with very many values, or images, or levels, the rest stays as it is.
func TestMediaIsBounded(t *testing.T) {
	image := `"data:image/png;base64,` + pngFile + `"`
	for about, output := range map[string]string{
		"many values": `["image",` + strings.Repeat("0,", 100_000) + image + `]`,
		"many levels": strings.Repeat("[", 9) + image + strings.Repeat("]", 9),
	} {
		if parts := front.Parts(jsontext.Value(output), "application/json"); len(parts) != 1 || string(parts[0].Data) != output {
			t.Errorf("%s: %d parts", about, len(parts))
		}
	}
	parts := front.Parts(jsontext.Value("["+strings.Repeat(image+",", 100)+"1]"), "application/json")
	if len(parts) != 17 || strings.Count(string(parts[0].Data), pngFile) != 84 || !parts[0].Data.IsValid() {
		t.Errorf("%d parts", len(parts))
	}
}
