package wire

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Answers have a length, or are chunked.
func TestAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for _, tc := range []struct{ name, answer, want, failure string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1388\r\n" + long + "\r\n0\r\n\r\n", "hello" + long, ""},
		{"no chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n", "", "reading the body of an answer: "},
		{"an error", "HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops", "", "HTTP 500: oops"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = c.Read(make([]byte, 1<<10))
				_, _ = io.WriteString(c, tc.answer)
			}()
			got, err := Once(http.MethodGet, listener.Addr().String(), "/", nil)
			if string(got) != tc.want || (err == nil) != (tc.failure == "") || err != nil && !strings.HasPrefix(err.Error(), tc.failure) {
				t.Errorf("%.20q, %v; want %.20q, %q", got, err, tc.want, tc.failure)
			}
		})
	}
}
