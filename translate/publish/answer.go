package publish

import "net/http"

// MaxAnswer bounds the body of an answer of the API, in bytes.
const MaxAnswer = 10 << 20

// Result returns what an answer of the API means. A body longer than [MaxAnswer] is too large, so it need not be read further than one byte more.
// The texts in it are untrusted; they are bounded, and without control characters.
func (o *Operation) Result(status int, header http.Header, body []byte) *Result {
	return nil
}
