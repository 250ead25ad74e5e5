package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// openRequests are equal requests in progress.
type openRequests struct {
	*target
	*pending
	text       []byte
	ctx        context.Context //nolint:containedctx // ends all requests
	cancel     context.CancelFunc
	transports []*http.Transport
	began      chan error // gets a value when an answer begins, and when a request ends
	errs       []error
	running    sync.WaitGroup
}

func newOpenRequests(ctx context.Context, t *target, p *pending, text []byte, n int, h2 bool) *openRequests {
	const streams = 200 // on each connection of HTTP/2
	o := &openRequests{target: t, pending: p, text: text, began: make(chan error, 2*n), errs: make([]error, n)}
	o.ctx, o.cancel = context.WithCancel(ctx)
	o.transports = make([]*http.Transport, (n+streams-1)/streams)
	for i := range o.transports {
		o.transports[i] = &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
		o.transports[i].Protocols.SetHTTP1(!h2)
		o.transports[i].Protocols.SetUnencryptedHTTP2(h2)
	}
	return o
}

// begin sends a request. If its answer begins before the end of the run, begin waits for that.
func (o *openRequests) begin(i int) {
	o.running.Go(func() {
		o.errs[i] = o.send(o.transports[i*len(o.transports)/len(o.errs)])
		o.began <- o.errs[i]
	})
	if o.begins {
		check(<-o.began)
	}
}

// send sends a request, and reads its answer.
func (o *openRequests) send(transport *http.Transport) error {
	req, err := http.NewRequestWithContext(o.ctx, http.MethodPost, "http://"+o.address+o.target.path, bytes.NewReader(o.text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r := bufio.NewReaderSize(resp.Body, 1<<10)
	if o.begins && !o.ends {
		if _, err := r.ReadSlice('\n'); err != nil { // of the first event
			return err
		}
		o.began <- nil
	}
	answer, err := io.ReadAll(r)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: HTTP %d %.300s", o.target.name, resp.StatusCode, answer)
	case o.ends:
		return nil
	}
	return o.check(answer)
}

// wait waits for correct answers to all requests.
func (o *openRequests) wait() error {
	late := time.AfterFunc(4*wire.Patience, o.cancel)
	defer late.Stop()
	o.running.Wait()
	return firstOf(o.errs)
}

func (o *openRequests) close() {
	o.cancel()
	o.running.Wait()
	for _, transport := range o.transports {
		transport.CloseIdleConnections()
	}
}
