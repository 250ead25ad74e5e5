package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
)

// EndlessBody answers with an endless JSON string, in chunks.
func EndlessBody() Action {
	return func(x *Exchange) {
		x.narrow()
		x.Writer.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(x.Writer, `{"status":"completed","output":"`)
		for err == nil {
			_, err = x.Writer.Write(filling)
		}
	}
}

// EndlessHeaders answers with endless header fields.
func EndlessHeaders() Action {
	return func(x *Exchange) {
		x.narrow()
		x.take()
		x.write("HTTP/1.1 200 OK\r\n")
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(x.taken, "X-Endless-%d: %s\r\n", i, filling[:100]); err != nil {
				return
			}
		}
	}
}

var filling = bytes.Repeat([]byte("a"), 32<<10)

// narrow makes the send buffer of the connection small, so that little is sent that a client does not
// read.
func (x *Exchange) narrow() {
	_ = x.Request.conn.tcp.SetWriteBuffer(16 << 10) // can't fail on an open connection
}

// Bomb answers with a compressed completed run whose output has n bytes.
func Bomb(n int64) Action {
	return func(x *Exchange) {
		x.narrow()
		h := x.Writer.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Encoding", "gzip")
		head, tail := x.around()
		z, _ := gzip.NewWriterLevel(x.Writer, gzip.BestSpeed) // a valid level
		_, err := io.WriteString(z, head+`"`)
		for left := n; left > 0 && err == nil; left -= int64(len(filling)) {
			_, err = z.Write(filling[:min(left, int64(len(filling)))])
		}
		_, _ = io.WriteString(z, `"`+tail) // the client may be gone
		_ = z.Close()
	}
}

// Interim sends n interim answers, 103 (Early Hints), before another action; endlessly many if n is
// negative.
func Interim(n int, then Action) Action {
	return func(x *Exchange) {
		for i := 0; i != n; i++ {
			select {
			case <-x.Gone():
				return
			default:
				x.Writer.WriteHeader(http.StatusEarlyHints)
			}
		}
		then(x)
	}
}
