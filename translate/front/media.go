package front

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Bounds of the search for images and sounds in an output.
const (
	maxMedia        = 16 // further ones stay as they are
	maxMediaDepth   = 8
	maxMediaValues  = 20_000 // that are looked at
	minUntypedMedia = 64     // characters of base64 without a type, which might be a short word
)

// The members of an object that is a file: its type, its content in base64, and what says no more.
var (
	typeMembers  = []string{"media_type", "mediaType", "mime_type", "mimeType", "content_type", "contentType"}
	bytesMembers = []string{"data_base64", "base64", "data"}
)

// mediaAliases are other names of the types of images and sounds that typeOf finds.
var mediaAliases = map[string]string{
	"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "image/x-ms-bmp": "image/bmp", "image/vnd.microsoft.icon": "image/x-icon",
	"audio/wave": "audio/wav", "audio/x-wav": "audio/wav", "audio/vnd.wave": "audio/wav", "audio/mp3": "audio/mpeg", "audio/x-mp3": "audio/mpeg", "audio/x-flac": "audio/flac",
	"audio/x-aac": "audio/aac", "audio/opus": "audio/ogg", "audio/m4a": "audio/mp4", "audio/x-m4a": "audio/mp4", "audio/x-aiff": "audio/aiff", "audio/mid": "audio/midi",
}

// Essence returns a media type without its parameters, in lower case.
func Essence(mediaType string) string {
	essence, _, _ := strings.Cut(mediaType, ";")
	return strings.ToLower(strings.TrimSpace(essence))
}

// mediaType returns the name that typeOf has for a type of images or sounds; empty: it is another type.
func mediaType(s string) string {
	essence := Essence(s)
	if known, ok := mediaAliases[essence]; ok {
		return known
	}
	if strings.HasPrefix(essence, "image/") || strings.HasPrefix(essence, "audio/") {
		return essence
	}
	return ""
}

// typeOf returns the type of an image or sound by its first bytes; empty: it is none. SVG is none, since it can contain scripts, and models
// see pixels only.
func typeOf(head []byte) string {
	has := func(at int, text string) bool { return len(head) >= at && bytes.HasPrefix(head[at:], []byte(text)) }
	switch {
	case has(0, "fLaC"):
		return "audio/flac"
	case has(0, "II*\x00"), has(0, "MM\x00*"):
		return "image/tiff"
	case has(4, "ftypavi"):
		return "image/avif"
	case has(4, "ftyphei"), has(4, "ftypmif1"):
		return "image/heic"
	case has(4, "ftyp"):
		return "audio/mp4"
	case len(head) > 1 && head[0] == 0xff && head[1]&0xf6 == 0xf0:
		return "audio/aac" // ADTS
	case len(head) > 1 && head[0] == 0xff && head[1]&0xe0 == 0xe0 && head[1]&0x06 != 0:
		return "audio/mpeg"
	}
	switch found := http.DetectContentType(head); found {
	case "audio/wave":
		return "audio/wav"
	case "application/ogg":
		return "audio/ogg"
	case "video/webm":
		return "audio/webm"
	default:
		return mediaType(found)
	}
}

var withoutSpace = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "")

// mediaOf returns the part for the base64 text of an image or sound: in any alphabet and lines, perhaps as a data URI (RFC 2397). declared is its
// type; empty: the data URI or its first bytes say it. ok is false if the text is no image or sound of that type.
func mediaOf(text []byte, declared string) (p Part, ok bool) {
	isURI := false
	if hasDataScheme(text) {
		head, data, found := bytes.Cut(text[5:], []byte(","))
		said, isBase64 := strings.CutSuffix(strings.ToLower(string(head)), ";base64")
		said = mediaType(said)
		if !found || !isBase64 || said == "" || declared != "" && said != declared {
			return p, false
		}
		if bytes.IndexByte(data, '%') >= 0 {
			unescaped, err := url.PathUnescape(string(data))
			if err != nil {
				return p, false
			}
			data = []byte(unescaped)
		}
		text, declared, isURI = data, said, true
	}
	if bytes.ContainsAny(text, " \t\r\n") {
		text = []byte(withoutSpace.Replace(string(text)))
	}
	standard, ok := Base64(text, true)
	if !ok || declared == "" && len(standard) < minUntypedMedia {
		return p, false
	}
	found := typeOf(headOf(standard))
	if found == "" || declared != "" && found != declared || declared == "" && !isURI && !slices.Contains(untypedMedia, found) {
		return p, false
	}
	return Part{Kind: PartBytes, Text: standard, MediaType: found}, true
}

// Media returns image or audio if the part is a file of such a type, as far as its first bytes say: the API of a model refuses a request with an
// image that is none. Empty: it is another part.
func (p *Part) Media() string {
	declared := mediaType(p.MediaType)
	if p.Kind != PartBytes || declared == "" {
		return ""
	}
	kind, _, _ := strings.Cut(declared, "/")
	found := typeOf(headOf(p.Text))
	if found != declared && (found != "" || slices.Contains(knownMedia, declared)) {
		return ""
	}
	return kind
}

// knownMedia are the types that typeOf finds.
var knownMedia = []string{
	"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff", "image/avif", "image/heic", "image/x-icon",
	"audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/aac", "audio/mp4", "audio/webm", "audio/aiff", "audio/midi",
}

// headOf returns the first bytes of base64 with padding.
func headOf(standard string) []byte {
	const beginning = 64                                                                    // a multiple of 4
	head, _ := base64.StdEncoding.DecodeString(standard[:min(len(standard), beginning)&^3]) // up to an error
	return head
}

// hasDataScheme reports whether a text may be a data URI.
func hasDataScheme(text []byte) bool {
	return len(text) >= len("data:") && strings.EqualFold(string(text[:len("data:")]), "data:")
}

// untypedMedia are the images that are recognized without their type: those that the page for browsers shows.
var untypedMedia = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// medium is an image or sound in an output.
type medium struct {
	start, end int // of the JSON string with its content
	part       Part
}

// mediaIn returns the images and sounds in a JSON value, in order. whole says that the value is nothing but one of them.
func mediaIn(output jsontext.Value) (found []medium, whole bool) {
	if !slices.ContainsFunc(mediaSigns, func(sign []byte) bool { return bytes.Contains(output, sign) }) {
		return nil, false // the usual case
	}
	s := mediaSearch{text: output, decoder: jsontext.NewDecoder(bytes.NewBuffer(output), jsontext.AllowDuplicateNames(true)), left: maxMediaValues}
	whole = s.value(0) && len(s.found) == 1
	slices.SortFunc(s.found, func(a, b medium) int { return a.start - b.start })
	return s.found, whole
}

// mediaSearch reads an output once, and remembers no more than the strings of the objects around.
type mediaSearch struct {
	text    jsontext.Value
	decoder *jsontext.Decoder
	found   []medium
	left    int // values that may be looked at
}

// more reports whether an array or object has a further value that is looked at.
func (s *mediaSearch) more(end jsontext.Kind) bool {
	kind := s.decoder.PeekKind()
	return kind != end && kind != jsontext.KindInvalid && s.left > 0
}

// value reads a value. It reports whether that is nothing but an image or sound.
func (s *mediaSearch) value(depth int) (only bool) {
	s.left--
	switch kind := s.decoder.PeekKind(); {
	case kind == '"':
		raw, start := s.raw()
		return s.add(raw, start, "", "")
	case depth >= maxMediaDepth || len(s.found) >= maxMedia || kind != '{' && kind != '[':
		_ = s.decoder.SkipValue() // at an error, the next read fails, too
	case kind == '[':
		_, _ = s.decoder.ReadToken() // it was peeked
		for s.more(']') {
			s.value(depth + 1)
		}
		_, _ = s.decoder.ReadToken() // as above; if it is no bracket, nothing more is looked at
	default:
		return s.object(depth)
	}
	return false
}

// object reads an object, which may be a file.
func (s *mediaSearch) object(depth int) (only bool) {
	_, _ = s.decoder.ReadToken() // it was peeked
	var file jsontext.Value
	var declared, filename string
	at, others := 0, false
	for s.more('}') {
		s.left--
		quoted, _ := s.raw()
		name := string(jsonrpc.Unquote(quoted))
		if s.decoder.PeekKind() != '"' {
			others = true
			s.value(depth + 1)
			continue
		}
		raw, start := s.raw()
		switch short := len(raw) <= maxMediaType; {
		case slices.Contains(bytesMembers, name) && file == nil:
			file, at = raw, start
		case short && slices.Contains(typeMembers, name) && declared == "":
			said := string(jsonrpc.Unquote(raw))
			declared = cmp.Or(mediaType(said), said)
		case short && name == "filename":
			filename = cleanFilename(string(jsonrpc.Unquote(raw)))
		case short && (name == "type" || name == "encoding"): // image or base64
		default:
			others = true
			s.add(raw, start, "", "")
		}
	}
	closing, _ := s.decoder.ReadToken()
	others = others || closing.Kind() != '}' // nothing more is looked at
	return file != nil && s.add(file, at, declared, filename) && !others
}

// raw reads a string. It returns it as a slice of the text, with where it starts; nil: there is none.
func (s *mediaSearch) raw() (raw jsontext.Value, start int) {
	v, err := s.decoder.ReadValue()
	if err != nil {
		return nil, 0
	}
	end := int(s.decoder.InputOffset())
	return s.text[end-len(v) : end : end], end - len(v)
}

// add adds a string if it is an image or sound, and reports whether it is.
func (s *mediaSearch) add(raw jsontext.Value, start int, declared, filename string) bool {
	if len(s.found) >= maxMedia || len(raw) < len(`""`)+4 {
		return false
	}
	if declared == "" && !slices.ContainsFunc(mediaBeginnings, func(b string) bool { return strings.EqualFold(string(raw[1:min(len(raw), 1+len(b))]), b) }) {
		return false // the usual case, at no cost
	}
	p, ok := mediaOf(jsonrpc.Unquote(raw), declared)
	if ok {
		p.Filename = filename
		s.found = append(s.found, medium{start, start + len(raw), p})
	}
	return ok
}

// mediaSigns are texts of which an output with images or sounds has at least one.
var mediaSigns = [][]byte{[]byte("image"), []byte("audio"), []byte("data:"), []byte("iVBORw0KGg"), []byte("/9j"), []byte("R0lGOD"), []byte("UklGR")}

// mediaBeginnings are how the JSON strings begin that are data URIs, or base64 of untypedMedia.
var mediaBeginnings = []string{"data:", "iVBORw0KGg", "/9j/", `\/9j\/`, "R0lGOD", "UklGR"}

// jsonParts returns the parts of a JSON output: the value, in which a note stands for the content of each image and sound, and these.
func jsonParts(output jsontext.Value, contentType string) []Part {
	found, whole := mediaIn(output)
	if len(found) == 0 {
		return []Part{{Kind: PartData, Data: output, MediaType: contentType}}
	}
	if whole {
		return []Part{found[0].part}
	}
	rest := make([]byte, 0, len(output)-len(found[0].part.Text))
	parts, end := make([]Part, 1, len(found)+1), 0
	for _, m := range found {
		size := len(m.part.Text)/4*3 - strings.Count(m.part.Text[len(m.part.Text)-2:], "=")
		rest = AppendText(append(rest, output[end:m.start]...), "("+m.part.MediaType+", "+strconv.Itoa(size)+" bytes: attached)")
		end = m.end
		parts = append(parts, m.part)
	}
	parts[0] = Part{Kind: PartData, Data: append(rest, output[end:]...), MediaType: contentType}
	return parts
}

// AcceptsStream reports whether a client says that it reads server-sent events, in one of these media ranges. The most specific range
// is first; if it is there with the weight 0, the others do not count (RFC 9110, section 12.5.1). r may be nil.
func AcceptsStream(r *http.Request, ranges ...string) bool {
	if r == nil {
		return false
	}
	accepted, best := false, len(ranges)
	for _, line := range r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			mediaType, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			if at := slices.Index(ranges[:best], mediaType); at >= 0 {
				weight, err := strconv.ParseFloat(params["q"], 64)
				accepted, best = err != nil || weight > 0, at
			}
		}
	}
	return accepted
}
