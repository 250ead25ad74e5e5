package jsonrpc

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendResult appends the answer with a result (JSON-RPC 2.0, section 5). id and
// result must be valid JSON; a nil id means null.
func appendResult(dst []byte, id, result jsontext.Value) []byte {
	dst = appendHead(dst, id)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// appendError appends the answer with an error (JSON-RPC 2.0, section 5.1). id and
// e.Data must be valid JSON; a nil id means null or, with OmitNullID, none. Empty data is
// left out. Invalid UTF-8 in the message is replaced.
func (p *Profile) appendError(dst []byte, id jsontext.Value, e *Error) []byte {
	if id == nil && p.OmitNullID {
		dst = append(dst, `{"jsonrpc":"2.0"`...)
	} else {
		dst = appendHead(dst, id)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	// The only error is that invalid UTF-8 was replaced.
	dst, _ = jsontext.AppendQuote(dst, e.Message)
	if e.Data.Kind() != jsontext.KindInvalid {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, `}}`...)
}

func appendHead(dst []byte, id jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		return append(dst, `null`...)
	}
	return append(dst, id...)
}
