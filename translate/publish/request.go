package publish

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Settable reports whether a parameter of a document can be an input: one in a header or cookie must neither set a credential nor change
// what the request means to servers.
func Settable(in, name string) bool {
	return false
}

// Request returns the request to the API for the inputs of an invocation, an object of valid JSON that matches the schemas of the descriptor.
// caller has the headers of the invocation, of which the request gets the credential of the operation, traceparent and the idempotency key.
// The URL has no host. A failure is one of an argument, and names it.
func (o *Operation) Request(ctx context.Context, arguments jsontext.Value, caller http.Header) (*http.Request, *run.Failure) {
	return nil, nil
}
