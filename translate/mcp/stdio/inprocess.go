package stdio

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// InProcess returns a function that sends requests to a handler in this process. The handler's writes wait until they are read,
// or fail once the body of the answer is closed. Its context then ends, too, as it does when the context of the request ends.
func InProcess(h http.Handler) Do {
	return func(r *http.Request) (*http.Response, error) {
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{}) // the handler may execute the request
		}
		ctx, end := context.WithCancel(r.Context())
		body, writer := io.Pipe()
		w := &responseWriter{header: http.Header{}, body: writer, begun: make(chan struct{})}
		served := r.Clone(ctx)
		served.RequestURI = r.URL.RequestURI()
		served.RemoteAddr = "127.0.0.1:0"
		if served.Body == nil {
			served.Body = http.NoBody
		}
		if served.Host == "" {
			served.Host = r.URL.Host
		}
		stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Cause(ctx)) }) // it returns no error
		go func() {
			defer end()
			defer stop()
			_ = writer.CloseWithError(w.serve(h, served)) // it returns no error
		}()
		select {
		case <-w.begun:
		case <-ctx.Done():
			if r.Context().Err() != nil {
				return nil, context.Cause(ctx)
			}
			<-w.begun // the handler has returned
		}
		if w.status == 0 {
			return nil, w.failure
		}
		return &http.Response{
			Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: w.sent, Body: &answerBody{body, end}, ContentLength: -1, Request: r,
		}, nil
	}
}

// answerBody is the body of an answer.
type answerBody struct {
	*io.PipeReader
	end context.CancelFunc
}

// Close ends the context of the handler.
func (b *answerBody) Close() error {
	b.end()
	return b.PipeReader.Close()
}

// responseWriter is the [http.ResponseWriter] of a handler in the process.
type responseWriter struct {
	header  http.Header
	body    *io.PipeWriter
	once    sync.Once
	begun   chan struct{} // is closed when the fields below are set
	status  int           // 0: the handler panicked before the answer
	sent    http.Header
	failure error
}

// serve runs the handler. It returns the error with which the body ends; nil for its regular end.
func (w *responseWriter) serve(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: the handler failed", io.ErrUnexpectedEOF)
			w.once.Do(func() {
				w.failure = err
				close(w.begun)
			})
		}
	}()
	h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	return nil
}

// Header returns the header that WriteHeader sends.
func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader begins the answer.
func (w *responseWriter) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return // informational
	}
	w.once.Do(func() {
		w.status, w.sent = status, cloneHeader(w.header)
		close(w.begun)
	})
}

// Write writes a part of the body. It waits until it is read.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush begins the answer. Nothing is buffered.
func (w *responseWriter) Flush() { w.WriteHeader(http.StatusOK) }

// cloneHeader copies a header, with its names in canonical form.
func cloneHeader(h http.Header) http.Header {
	clone := make(http.Header, len(h))
	for name, values := range h.Clone() {
		clone[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	return clone
}
