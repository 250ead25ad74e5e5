package publish

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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
	isForm, isMultipart := formOf(b.MediaType) == formBody, formOf(b.MediaType) == multipartBody
	var members []field
	if b.Whole == "" {
		if members, failure = b.given(given); failure != nil || members == nil && !b.Required {
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
		case !isForm && !isMultipart || a.value.Kind() != '{':
			return []byte(textOf(a.value)), b.MediaType, nil
		}
		for name, value := range jsonrpc.Members(a.value) {
			members = append(members, field{&Member{Name: string(jsonrpc.Unquote(name))}, &argument{name: a.name, value: value}})
		}
	}
	if isMultipart {
		return encodeMultipart(members)
	}
	var own fields
	for _, f := range members {
		if isForm {
			p := Parameter{Name: f.Name, Style: f.Style, Explode: f.Explode || f.Style == "", JSON: f.Style == "" && f.value.Kind() == '{'}
			for _, v := range p.parts(f.value) {
				name, _, _ := strings.Cut(v.name, "[")
				if p.Explode && p.Style == "form" && slices.ContainsFunc(b.Members, func(m Member) bool { return m.Name == v.name || m.Name == name }) {
					return nil, "", f.fault(run.WrongSchema, notBeside(v.name))
				}
			}
			own.add(p.fields(f.value, url.QueryEscape))
		} else {
			own.add(slices.Values([]string{string(jsonvalue.Quoted(f.Name)) + ":" + string(f.value)}))
		}
		if own.size > maxSent {
			return nil, "", f.fault(run.WrongSchema, tooLarge)
		}
	}
	if isForm {
		return []byte(strings.Join(own.texts, "&")), b.MediaType, nil
	}
	return []byte("{" + strings.Join(own.texts, ",") + "}"), b.MediaType, nil
}

// given returns the members of the body that are given, in the order of the arguments. If one is, the required ones must be, too.
func (b *Body) given(given arguments) (fields []field, failure *run.Failure) {
	missing := ""
	for i := range b.Members {
		m := &b.Members[i]
		if a := given.take(m.Name); a != nil {
			fields = append(fields, field{m, a})
		} else if m.Required {
			missing = cmp.Or(missing, m.Name)
		}
	}
	if missing != "" && (fields != nil || b.Required) {
		return nil, (&argument{name: missing}).fault(run.Required, "is required in a body")
	}
	slices.SortFunc(fields, func(a, b field) int { return a.at - b.at })
	return fields, nil
}

// bytes returns the bytes of a value in base64.
func (a *argument) bytes(value jsontext.Value) ([]byte, *run.Failure) {
	content, err := base64.StdEncoding.DecodeString(textOf(value))
	if err != nil {
		return nil, a.fault(run.WrongSchema, "must be base64")
	}
	return content, nil
}

// fileNames are those of files, of which some APIs tell the formats apart by the extension: usually, it is the end of the media type.
var fileNames = strings.NewReplacer("file.plain", "file.txt", "file.wave", "file.wav", "file.octet-stream", "file.bin", "file.x-gzip", "file.gz")

// encodeMultipart returns a form in multipart/form-data (RFC 7578).
func encodeMultipart(fields []field) (body []byte, mediaType string, failure *run.Failure) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b) // writing to memory does not fail
	for _, f := range fields {
		items := slices.Values([]jsontext.Value{f.value})
		isOne := f.Style != "" && !f.Explode && !f.File // an array is one field, as in Swagger 2.0
		if f.value.Kind() == '[' && !isOne {
			items = jsonrpc.Items(f.value)
		}
		for item := range items {
			disposition, content := strings.TrimSuffix(multipart.FileContentDisposition(f.Name, ""), `; filename=""`), []byte(textOf(item))
			mediaType = f.MediaType
			switch kind := item.Kind(); {
			case kind == 'n':
				continue
			case f.File:
				if content, failure = f.bytes(item); failure != nil {
					return nil, "", failure
				}
				mediaType = cmp.Or(mediaType, http.DetectContentType(content))
				disposition = multipart.FileContentDisposition(f.Name, fileNames.Replace("file."+path.Base(strings.SplitN(mediaType, ";", 2)[0])))
			case kind == '[' && isOne:
				separator, _ := url.PathUnescape(cmp.Or(separators[f.Style], ","))
				content = []byte(joined(new(Parameter).parts(item), separator, false, func(text string) string { return text }))
			case kind == '{' || kind == '[':
				mediaType = cmp.Or(mediaType, "application/json")
			}
			header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
			if mediaType != "" {
				header.Set("Content-Type", mediaType)
			}
			w, _ := form.CreatePart(header)
			if _, _ = w.Write(content); b.Len() > maxSent {
				return nil, "", f.fault(run.WrongSchema, tooLarge)
			}
		}
	}
	_ = form.Close()
	return b.Bytes(), form.FormDataContentType(), nil
}
