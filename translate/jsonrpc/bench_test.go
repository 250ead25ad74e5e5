package jsonrpc_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// dense is a request of about size bytes whose args are small members.
func dense(size int) string {
	var args strings.Builder
	for i := 0; args.Len() < size-150; i++ {
		args.WriteString(`,"item_` + strconv.Itoa(i) + `":{"city":"Kyoto","days":[1,2,3],"exact":true}`)
	}
	return `{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"example-corp.weather-forecast","args":{"unit":"celsius"` +
		args.String() + `}},"id":"7b1f3a3e-5f0c"}`
}

var sizes = []struct {
	name string
	size int
}{{"300B", 300}, {"4KB", 4 << 10}, {"64KB", 64 << 10}}

func BenchmarkDecode(b *testing.B) {
	for _, c := range sizes {
		b.Run(c.name, func(b *testing.B) {
			body := []byte(dense(c.size))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if fault := jsonrpc.DecodePooled(body, &profile); fault != nil {
					b.Fatal(fault)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	id := jsontext.Value(`"7b1f3a3e-5f0c"`)
	for _, c := range sizes {
		b.Run(c.name, func(b *testing.B) {
			result := jsontext.Value(dense(c.size))
			b.SetBytes(int64(len(result)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = jsonrpc.AppendResult(dst[:0], id, result)
			}
		})
	}
	b.Run("error", func(b *testing.B) {
		e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: name is required", Data: jsontext.Value(`{"param":"name","reason":"required"}`)}
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			dst = jsonrpc.AppendError(dst[:0], id, e)
		}
	})
}

// BenchmarkServe is the way of a request through the server, to a handler that does nothing.
func BenchmarkServe(b *testing.B) {
	envelope := func(args string) string {
		return `{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"acme.files","args":` + args + `},"id":"7b1f3a3e-5f0c"}`
	}
	for name, body := range map[string]string{
		"dense/64KB": dense(64 << 10), "Japanese/64KB": envelope(`{"text":"` + strings.Repeat("東京は今日も晴れです。", 2000) + `"}`),
		"base64/256KB": envelope(`{"file":"` + strings.Repeat("iVBORw0KGgo/AAAN", 16<<10) + `"}`), "base64/900KB": envelope(`{"file":"` + strings.Repeat("iVBORw0KGgo/AAAN", 57_600) + `"}`),
	} {
		b.Run(name, func(b *testing.B) {
			s := &jsonrpc.Server{Profile: profile, Handler: jsonrpc.Handler(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
				return jsontext.Value(`{}`), nil
			})}
			w, text := httptest.NewRecorder(), strings.NewReader(body)
			r := httptest.NewRequest(http.MethodPost, "/rpc", io.NopCloser(text))
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = int64(len(body))
			b.SetBytes(r.ContentLength)
			b.ReportAllocs()
			for b.Loop() {
				text.Reset(body)
				w.Body.Reset()
				s.ServeHTTP(w, r)
			}
		})
	}
}
