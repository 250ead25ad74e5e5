package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Which exchanges are trouble that an operator has to know of.
func TestHealthOfExchanges(t *testing.T) {
	const ok, trouble, neither = "ok", "trouble", "neither"
	over, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	invoke, poll, index, token := run.PhaseInvoke, run.PhasePoll, run.PhaseDiscovery, run.PhaseAuth
	for _, c := range []struct {
		exchange exchange.Exchange
		want     string
	}{
		{exchange.Exchange{Phase: invoke, Status: http.StatusOK}, ok},
		{exchange.Exchange{Phase: invoke, Status: http.StatusUnprocessableEntity}, ok}, // the arguments may be wrong
		{exchange.Exchange{Phase: invoke, Status: http.StatusNotFound}, ok},
		{exchange.Exchange{Phase: invoke, Status: http.StatusTooManyRequests}, trouble},
		{exchange.Exchange{Phase: poll, Status: http.StatusTooManyRequests}, trouble},
		{exchange.Exchange{Phase: invoke, Status: http.StatusUnauthorized}, trouble},
		{exchange.Exchange{Phase: poll, Status: http.StatusServiceUnavailable}, trouble},
		{exchange.Exchange{Phase: index, Status: http.StatusNotFound}, trouble},
		{exchange.Exchange{Phase: token, Status: http.StatusBadRequest}, trouble},
		{exchange.Exchange{Phase: invoke, Err: errors.New("connection refused")}, trouble},
		{exchange.Exchange{Phase: poll, Err: context.DeadlineExceeded, Duration: 5 * time.Second}, trouble},
		{exchange.Exchange{Phase: poll, Err: context.DeadlineExceeded, Duration: time.Second}, neither}, // the caller did not wait longer
		{exchange.Exchange{Phase: poll, Err: context.Canceled, Abandoned: true}, neither},
		{exchange.Exchange{Phase: invoke, Err: errors.New("the circuit breaker is open"), Withheld: true}, neither},
	} {
		known := new(sourceHealth)
		c.exchange.Source, c.exchange.URL = "acme", new(url.URL)
		ctx := t.Context()
		if errors.Is(c.exchange.Err, context.DeadlineExceeded) {
			ctx = over
		}
		health{"acme": known}.note(ctx, &c.exchange)
		answered, newest, _ := known.state()
		got := neither
		switch {
		case answered > 0 && newest == nil:
			got = ok
		case newest != nil && answered == 0:
			got = trouble
		}
		if got != c.want {
			t.Errorf("%s, HTTP %d, %v is %s, want %s", c.exchange.Phase, c.exchange.Status, c.exchange.Err, got, c.want)
		}
	}
}

// TestHealthOfRefusedTokens: a token endpoint that works does not end the trouble of a provider that refuses its tokens, only its own.
func TestHealthOfRefusedTokens(t *testing.T) {
	known := new(sourceHealth)
	for i, c := range []struct {
		phase   run.Phase
		status  int
		lasting bool
	}{
		{run.PhaseInvoke, http.StatusUnauthorized, true},
		{run.PhaseAuth, http.StatusOK, true},
		{run.PhaseInvoke, http.StatusOK, false},
		{run.PhaseAuth, http.StatusBadRequest, true},
		{run.PhaseAuth, http.StatusOK, false},
	} {
		health{"acme": known}.note(t.Context(), &exchange.Exchange{Source: "acme", URL: new(url.URL), Phase: c.phase, Status: c.status})
		if _, newest, lasting := known.state(); lasting != c.lasting {
			t.Errorf("after request %d (%s, HTTP %d), trouble lasts: %t: %+v", i, c.phase, c.status, lasting, newest)
		}
	}
}

// TestR145HealthIsExact: operators learn what callers must not.
func TestR145HealthIsExact(t *testing.T) {
	const why = "address 10.0.0.1 is not public"
	plain := tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&exchange.RefusedError{Reason: why, Exact: why}, why},
		{plain, "the server does not speak TLS"},
		{http.ErrSchemeMismatch, "the server does not speak TLS"},
		{&net.DNSError{IsNotFound: true}, "its host name does not exist"},
	} {
		known := health{"acme": new(sourceHealth)}
		known.note(t.Context(), &exchange.Exchange{Source: "acme", URL: new(url.URL), Phase: run.PhaseInvoke, Err: c.err})
		if _, newest, _ := known["acme"].state(); newest == nil || newest.Error != c.want {
			t.Errorf("%v is noted as %+v, want %q", c.err, newest, c.want)
		}
		failure := new(exchange.Sender).Unreachable(c.err, run.PhaseDiscovery, new(url.URL), "")
		known.unusable("acme", failure)
		if _, newest, _ := known["acme"].state(); newest.Error != failure.OperatorMessage() || !strings.Contains(newest.Error, c.want) {
			t.Errorf("an unusable list because of %v is noted as %+v, want %q", c.err, newest, c.want)
		}
	}
}
