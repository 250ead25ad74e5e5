package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// silentHosts leaves out the documents of hosts that do not answer. An index can list 10,000, each of which would take ten seconds.
type silentHosts struct {
	fetch func(ctx context.Context, url string) ([]byte, http.Header, error)

	mu     sync.Mutex
	silent map[string]int // documents in a row that had no answer, by host
}

// maxSilent is how many documents of a host in a row may have no answer.
const maxSilent = 20

var errSilent = fmt.Errorf("it was not read, because %d other documents of its host had no answer", maxSilent)

// Fetch reads a document, unless its host does not answer.
func (s *silentHosts) Fetch(ctx context.Context, at string) ([]byte, http.Header, error) {
	host := ""
	if u, err := url.Parse(at); err == nil {
		host = u.Host
	}
	s.mu.Lock()
	isSilent := s.silent[host] >= maxSilent
	s.mu.Unlock()
	if isSilent {
		return nil, nil, errSilent
	}
	text, header, err := s.fetch(ctx, at)
	f, failed := errors.AsType[*run.Failure](err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed && (f.Kind == run.DeadlineExceeded || f.Kind == run.Unreachable) {
		s.silent[host]++
	} else {
		delete(s.silent, host)
	}
	return text, header, err
}
