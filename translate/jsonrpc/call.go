package jsonrpc

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/go-json-experiment/json/jsontext"
)

// answer is the outcome of one element. The zero value means that the handler has not
// returned.
type answer struct {
	result jsontext.Value
	err    *Error
	// panicked means that the handler panicked, and err is the internal error for it.
	panicked bool
	// aborted means that the handler panicked with [http.ErrAbortHandler], so that the
	// HTTP request must not be answered.
	aborted bool
}

// call runs the handler for one valid request and recovers its panics.
func (s *Server) call(ctx context.Context, req *Request) (a answer) {
	if ctx.Err() != nil {
		return answer{err: s.Profile.fault(CodeInternalError, "not started, because the HTTP request was cancelled")}
	}
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			a = answer{aborted: true}
			return
		}
		if s.OnPanic != nil {
			s.OnPanic(ctx, value, debug.Stack())
		}
		a = answer{err: s.Profile.fault(CodeInternalError, "the method failed because of a bug"), panicked: true}
	}()
	result, err := s.Handler.ServeRPC(ctx, req)
	return answer{result: result, err: err}
}

// fault returns the error to answer with, or nil if the answer is the result. It does not check
// that the result is valid JSON, only that its first byte begins a value.
func (a *answer) fault(p *Profile) *Error {
	if a.err == nil && a.result.Kind() == jsontext.KindInvalid {
		return p.fault(CodeInternalError, "the method returned no result")
	}
	return a.err
}
