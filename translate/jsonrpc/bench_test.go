package jsonrpc_test

import (
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
				if _, fault := jsonrpc.Decode(body, &profile); fault != nil {
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
