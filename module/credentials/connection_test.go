package credentials_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// rawEndpoint starts a token endpoint that answers with any text, and then waits until its client
// closes the connection. It returns its address, and a channel that is closed then.
func rawEndpoint(t *testing.T, answer func(r *http.Request, body string) string) (address string, hungUp <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	serve := func(conn net.Conn) error {
		from := bufio.NewReader(conn)
		r, err := http.ReadRequest(from)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(conn, answer(r, string(body))); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, from) // however it ends
		return nil
	}
	go func() {
		defer close(closed)
		conn, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may have been closed
		if err := serve(conn); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-closed
	})
	return "http://" + listener.Addr().String() + "/token", closed
}

// overTheWire authenticates with m over a network connection.
func overTheWire(t *testing.T, m *credentials.OAuth2) *run.Failure {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	a := authentication(t, oauth2Auth(tokenURL))
	a.Transport, a.Origin = transport, "http://localhost"
	err := m.Authenticate(ctx, a)
	e, ok := errors.AsType[*run.Failure](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	return e
}

// TestSwitchingProtocols: after a 101, the body is the connection, and the end of a context does not
// end a read of it.
func TestSwitchingProtocols(t *testing.T) {
	address, hungUp := rawEndpoint(t, func(*http.Request, string) string {
		return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: token\r\n\r\n"
	})
	m := oauth2(t, func(m *credentials.OAuth2) { m.TokenURL = address })
	e := overTheWire(t, m)
	if e.Kind != run.AuthRequired || e.HTTPStatus != 101 || details(t, e)["reason"] != "invalid_response" {
		t.Fatalf("got %v %s with status %d", e, front.Details(e), e.HTTPStatus)
	}
	<-hungUp
}

// TestABodyThatNeverEnds: when the context ends, a body whose reads ignore the context is closed.
func TestABodyThatNeverEnds(t *testing.T) {
	for name, status := range map[string]int{"200": 200, "400": 400} {
		t.Run(name, func(t *testing.T) {
			m := oauth2(t)
			synctest.Test(t, func(t *testing.T) {
				body, held := io.Pipe()
				defer func() { _ = held.Close() }() // for a body that is still read
				e := &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) {
					return &reply{status, http.Header{}, body}, nil
				}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				a := authentication(t, oauth2Auth(tokenURL))
				a.Transport = closing{e, body}
				start := time.Now()
				err := m.Authenticate(ctx, a)
				got, ok := errors.AsType[*run.Failure](err)
				if !ok || time.Since(start) != 10*time.Second {
					t.Fatalf("got %v after %s", err, time.Since(start))
				}
				if got.Kind == run.Unreachable && details(t, got)["reason"] != "timeout" ||
					(got.Kind == run.Unreachable) != (status == 200) {
					t.Errorf("got %v %s", got, front.Details(got))
				}
			})
		})
	}
}

// closing gives answers a body that can be closed.
type closing struct {
	http.RoundTripper
	body io.ReadCloser
}

func (c closing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = c.body
	}
	return resp, err
}

// These texts differ in each form in which they are sent.
const (
	awkwardID     = "me/acme"
	awkwardSecret = `s3cr+t"/%\` + canary
)

// knows reports whether a text is removed from what others say.
func knows(m *credentials.OAuth2, text string) bool {
	return slices.Contains(append(m.Secrets(), m.Sent([]byte(text))...), text)
}

func TestSecretsInAllForms(t *testing.T) {
	t.Setenv("BRIDGE_AWKWARD", awkwardSecret)
	m := oauth2(t, func(m *credentials.OAuth2) { m.ClientID, m.ClientSecret = awkwardID, "{env.BRIDGE_AWKWARD}" })
	e := &tokenEndpoint{answer: issue(time.Hour)}
	bearerOf(t, m, e)
	_, sent, _ := strings.Cut(e.requests[0].Header.Get("Authorization"), " ")
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tokenURL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	plain.SetBasicAuth(awkwardID, awkwardSecret)
	_, unencoded, _ := strings.Cut(plain.Header.Get("Authorization"), " ")
	for _, want := range []string{awkwardSecret, url.QueryEscape(awkwardSecret), sent, unencoded, "token-1"} {
		if !knows(m, want) {
			t.Errorf("%s is missing in %v", want, m.Secrets())
		}
	}
}

// TestRefreshTokensAreSecretsAtOnce: a refresh token from storage is redacted before its request was
// answered.
func TestRefreshTokensAreSecretsAtOnce(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "configured/1")
	_, database := newDatabase(t)
	for n, want := range [][]string{
		{"configured/1", "configured%2F1"},
		{"configured/1", "configured%2F1", "stored/1", "stored%2F1"},
	} {
		m := load(t, database, refreshing)[0].(*credentials.OAuth2)
		e := &tokenEndpoint{answer: func(_ int, _ *http.Request) (*reply, error) {
			for _, want := range want {
				if !knows(m, want) {
					t.Errorf("run %d: %s is missing in %v", n, want, m.Secrets())
				}
			}
			return response(200, `{"access_token":"x","refresh_token":"stored/1"}`), nil
		}}
		bearerOf(t, m, e)
		stop(t) // which drops the tokens in memory
	}
}

// TestCausesShowNoSecret: a token endpoint repeats its request where net/http quotes the answer.
func TestCausesShowNoSecret(t *testing.T) {
	for name, test := range map[string]struct {
		style string
		echo  func(r *http.Request, body string) string
	}{
		"Basic": {"header", func(r *http.Request, _ string) string {
			return strings.Replace(r.Header.Get("Authorization"), " ", "_", 1)
		}},
		"Basic, joined otherwise": {"header", func(r *http.Request, _ string) string {
			r.SetBasicAuth(awkwardID, awkwardSecret)
			return strings.Replace(r.Header.Get("Authorization"), " ", "_", 1)
		}},
		"body": {"params", func(_ *http.Request, body string) string { return body }},
		"text": {"params", func(_ *http.Request, _ string) string { return awkwardSecret }},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := rawEndpoint(t, func(r *http.Request, body string) string {
				return "HTTP/1.1 " + test.echo(r, body) + " OK\r\n\r\n"
			})
			t.Setenv("BRIDGE_AWKWARD", awkwardSecret)
			m := oauth2(t, func(m *credentials.OAuth2) {
				m.ClientID, m.ClientSecret, m.TokenURL, m.AuthStyle = awkwardID, "{env.BRIDGE_AWKWARD}", address, test.style
			})
			e := overTheWire(t, m)
			if e.Kind != run.Unreachable || e.Cause == nil {
				t.Fatalf("got %v because of %v", e, e.Cause)
			}
			text := e.Cause.Error()
			if !strings.Contains(text, "malformed HTTP status code") || !strings.Contains(text, "[redacted]") {
				t.Errorf("got %s", text)
			}
			assertNoCanary(t, text)
			for _, secret := range m.Secrets() {
				if strings.Contains(text, secret) {
					t.Errorf("%s is visible in %s", secret, text)
				}
			}
		})
	}
}
