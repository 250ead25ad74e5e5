package skillsharing

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

var errTooLarge = errors.New("the answer is too large")

// answerSize is how large the body of an answer may be, and what of the client
// limits it.
func (c *Client) answerSize(phase Phase) (size int64, limit string) {
	if phase == PhaseDiscovery || phase == PhaseDescriptor {
		if size := c.Limits.DocumentSize; 0 < size && size < c.MaxResponseSize {
			return size, "limits document_size"
		}
	}
	return c.MaxResponseSize, "max_response_size"
}

// answerName is what the answer of a phase is called.
func answerName(phase Phase) string {
	switch phase {
	case PhaseDiscovery:
		return "index"
	case PhaseDescriptor:
		return "descriptor"
	}
	return "answer"
}

// readBody reads the body of an answer, but no more than is accepted in the phase,
// and only as long as it keeps coming.
func (c *Client) readBody(phase Phase, resp *http.Response) ([]byte, error) {
	body := io.Reader(resp.Body)
	if timeout := c.Limits.BodyTimeout; timeout > 0 {
		watched := watch(resp.Body, timeout)
		defer watched.timer.Stop()
		body = watched
	}
	size, limit := c.answerSize(phase)
	text, err := io.ReadAll(io.LimitReader(body, size+1))
	if int64(len(text)) > size {
		return nil, fmt.Errorf("%w: more than %d bytes (%s)", errTooLarge, size, limit)
	}
	return text, err
}

// errStalled is the error of a body that stands still.
var errStalled error = stalledError{}

// stalledError is a net.Error.
type stalledError struct{}

func (stalledError) Error() string   { return "its answer stopped coming" }
func (stalledError) Timeout() bool   { return true }
func (stalledError) Temporary() bool { return true }

// watchedBody is a body that is closed when nothing has come of it for some time.
// What is compressed counts when it can be decompressed.
type watchedBody struct {
	body    io.ReadCloser
	timeout time.Duration
	timer   *time.Timer
	stalled atomic.Bool
}

// watch returns a body whose timer is running. It must be stopped.
func watch(body io.ReadCloser, timeout time.Duration) *watchedBody {
	w := &watchedBody{body: body, timeout: timeout}
	w.timer = time.AfterFunc(timeout, func() {
		w.stalled.Store(true)
		_ = body.Close() // which ends the read that waits
	})
	return w
}

// Read implements io.Reader.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 {
		w.timer.Reset(w.timeout)
	}
	if err != nil && !errors.Is(err, io.EOF) && w.stalled.Load() {
		err = errStalled
	}
	return n, err
}
