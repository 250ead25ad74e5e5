package servers

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// Upstream is a provider in a child process.
type Upstream struct {
	*Process
	Address     string
	Others      []string // addresses of the further providers
	Certificate string   // the file with it, if the provider speaks TLS
	Keyed       bool     // the bridge has an API key for the providers
}

// StartUpstream starts a provider. The program understands its arguments after "upstream".
func (s *Starter) StartUpstream(args ...string) *Upstream {
	p, addresses := s.StartServer("the upstream", s.Self, append([]string{"upstream"}, args...)...)
	return &Upstream{Process: p, Address: addresses[0], Others: addresses[1:]}
}

// StartSecureUpstream starts a provider that speaks HTTP/2 with TLS.
func (s *Starter) StartSecureUpstream() *Upstream {
	file := filepath.Join(failure.Must(os.MkdirTemp(s.Dir, "upstream-")), "certificate.pem")
	u := s.StartUpstream("-tls", file)
	u.Certificate = file
	return u
}

// Counts are the counters of an upstream.
type Counts struct {
	Descriptors int `json:"descriptors"`
	Runs        int `json:"runs"`
	Held        int `json:"held"`
}

// Counts returns the counters.
func (u *Upstream) Counts() (c Counts) {
	failure.Check(json.Unmarshal(failure.Must(wire.Once(http.MethodGet, u.Address, "/counts", nil)), &c))
	return c
}

// Release ends all held requests and runs.
func (u *Upstream) Release() { failure.Must(wire.Once(http.MethodPost, u.Address, "/release", nil)) }

// Reached waits until n runs have started or n requests are held.
func (u *Upstream) Reached(ctx context.Context, n int) {
	deadline := time.Now().Add(wire.Patience)
	for {
		c := u.Counts()
		came := max(c.Runs, c.Held)
		if came >= n {
			return
		}
		failure.Check(ctx.Err())
		if time.Now().After(deadline) {
			failure.Check(errors.New("of " + strconv.Itoa(n) + " requests, " + strconv.Itoa(came) + " have come to the upstream after " + wire.Patience.String()))
		}
		time.Sleep(time.Millisecond)
	}
}
