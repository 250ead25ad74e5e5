package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// upstream is a provider in a child process.
type upstream struct {
	*process
	address     string
	others      []string // addresses of the further providers
	certificate string   // the file with it, if the provider speaks TLS
	keyed       bool     // the bridge has an API key for the providers
}

func (b *bench) startUpstream(args ...string) *upstream {
	p, addresses := b.startServer("the upstream", b.self, append([]string{"upstream"}, args...)...)
	return &upstream{process: p, address: addresses[0], others: addresses[1:]}
}

// startSecureUpstream starts a provider that speaks HTTP/2 with TLS.
func (b *bench) startSecureUpstream() *upstream {
	file := filepath.Join(must(os.MkdirTemp(b.dir, "upstream-")), "certificate.pem")
	u := b.startUpstream("-tls", file)
	u.certificate = file
	return u
}

// counts are the counters of an upstream.
type counts struct {
	Descriptors int `json:"descriptors"`
	Runs        int `json:"runs"`
	Held        int `json:"held"`
}

func (u *upstream) counts() (c counts) {
	check(json.Unmarshal(must(wire.Once(http.MethodGet, u.address, "/counts", nil)), &c))
	return c
}

// release ends all held requests and runs.
func (u *upstream) release() { must(wire.Once(http.MethodPost, u.address, "/release", nil)) }

// reached waits until n runs have started or n requests are held.
func (u *upstream) reached(ctx context.Context, n int) {
	deadline := time.Now().Add(wire.Patience)
	for {
		c := u.counts()
		came := max(c.Runs, c.Held)
		if came >= n {
			return
		}
		check(ctx.Err())
		if time.Now().After(deadline) {
			check(errors.New("of " + strconv.Itoa(n) + " requests, " + strconv.Itoa(came) + " have come to the upstream after " + wire.Patience.String()))
		}
		time.Sleep(time.Millisecond)
	}
}
