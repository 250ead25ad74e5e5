package publish

import (
	"bytes"
	"encoding/base64"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// field is a member of a body with its argument.
type field struct {
	*Member
	*argument
}

// encode returns the body for the arguments, and its media type; empty: there is none.
func (b *Body) encode(given arguments) (body []byte, mediaType string, failure *run.Failure) {
	if b == nil {
		return nil, "", nil
	}
	isForm := strings.HasPrefix(b.MediaType, "application/x-www-form-urlencoded") || strings.HasPrefix(b.MediaType, "multipart/")
	var fields []field
	if b.Whole == "" {
		if fields, failure = b.members(given); failure != nil || fields == nil && !b.Required {
			return nil, "", failure
		}
	} else {
		a := given.take(b.Whole)
		switch {
		case a == nil:
			return nil, "", nil
		case b.Base64:
			body, failure = a.bytes(a.value)
			return body, b.MediaType, failure
		case isJSON(b.MediaType):
			return a.value, b.MediaType, nil
		case !isForm || a.value.Kind() != '{':
			return []byte(textOf(a.value)), b.MediaType, nil
		}
		jsonrpc.EachMember(a.value, func(name, value jsontext.Value) bool {
			fields = append(fields, field{&Member{Name: string(jsonrpc.Unquote(name))}, &argument{name: a.name, value: value}})
			return true
		})
	}
	if strings.HasPrefix(b.MediaType, "multipart/") {
		return encodeMultipart(fields)
	}
	var texts []string
	for _, f := range fields {
		if isForm {
			texts = append(texts, f.urlencoded()...)
		} else {
			texts = append(texts, string(jsonvalue.Quoted(f.Name))+":"+string(f.value))
		}
	}
	if isForm {
		return []byte(strings.Join(texts, "&")), b.MediaType, nil
	}
	return []byte("{" + strings.Join(texts, ",") + "}"), b.MediaType, nil
}

// members returns the members of the body that are given, in the order of the arguments. If one is, the required ones must be, too.
func (b *Body) members(given arguments) (fields []field, failure *run.Failure) {
	left := make(map[string]*Member, len(b.Members))
	for i := range b.Members {
		left[b.Members[i].Input] = &b.Members[i]
	}
	for _, a := range given {
		if m := left[a.name]; m != nil && !a.used {
			a.used = true
			fields = append(fields, field{m, a})
			delete(left, a.name)
		}
	}
	for _, m := range b.Members {
		if m.Required && left[m.Input] != nil && (fields != nil || b.Required) {
			return nil, (&argument{name: m.Input}).fault(run.Required, "is required in a body")
		}
	}
	return fields, nil
}

// bytes returns the bytes of a value in base64.
func (a *argument) bytes(value jsontext.Value) ([]byte, *run.Failure) {
	if value.Kind() == '"' {
		if standard, ok := front.Base64(jsonrpc.Unquote(value), true); ok {
			if content, err := base64.StdEncoding.DecodeString(standard); err == nil {
				return content, nil
			}
		}
	}
	return nil, a.fault(run.WrongSchema, "must be base64")
}

// urlencoded returns the fields of a form for one of its members.
func (f *field) urlencoded() []string {
	p := Parameter{Name: f.Name, Style: f.Style, Explode: f.Explode || f.Style == ""}
	value := f.value
	if f.Style == "" && value.Kind() == '{' {
		value = jsonvalue.Quoted(compact(value))
	}
	return p.fields(value, url.QueryEscape)
}

// encodeMultipart returns a form in multipart/form-data (RFC 7578).
func encodeMultipart(fields []field) (body []byte, mediaType string, failure *run.Failure) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b) // writing to memory does not fail
	for _, f := range fields {
		items := []jsontext.Value{f.value}
		if f.value.Kind() == '[' {
			items = jsonrpc.Items(f.value)
		}
		for _, item := range items {
			header := textproto.MIMEHeader{"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": f.Name})}}
			content := []byte(textOf(item))
			switch kind := item.Kind(); {
			case kind == 'n':
				continue
			case f.File:
				if content, failure = f.bytes(item); failure != nil {
					return nil, "", failure
				}
				mediaType = f.MediaType
				if mediaType == "" || mediaType == "application/octet-stream" || strings.Contains(mediaType, "*") {
					mediaType = http.DetectContentType(content)
				}
				header.Set("Content-Disposition", multipart.FileContentDisposition(f.Name, "file."+extension(mediaType)))
				header.Set("Content-Type", mediaType)
			case kind == '{' || kind == '[':
				header.Set("Content-Type", "application/json")
			}
			w, _ := form.CreatePart(header)
			_, _ = w.Write(content)
		}
	}
	_ = form.Close()
	return b.Bytes(), form.FormDataContentType(), nil
}

// extensions are those of files whose media type does not end in it.
var extensions = map[string]string{
	"jpeg": "jpg", "mpeg": "mp3", "octet-stream": "bin", "plain": "txt", "svg+xml": "svg", "wave": "wav", "x-gzip": "gz",
}

// extension returns the extension of file names for a media type, by which some APIs tell formats apart.
func extension(mediaType string) string {
	essence, _, _ := strings.Cut(mediaType, ";")
	_, name, _ := strings.Cut(essence, "/")
	if known, ok := extensions[name]; ok {
		return known
	}
	return name
}
