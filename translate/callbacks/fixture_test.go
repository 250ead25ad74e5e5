package callbacks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

const hook = "https://hooks.example/end"

// keys has one key.
type keys struct{ runtoken.Key }

func (k keys) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }
func (k keys) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, id == k.ID, nil
}

func keyOf(n byte) keys {
	return keys{runtoken.RestoreKey(runtoken.KeyID{n}, runtoken.Secret{n + 1}, time.Time{})}
}

// received is a request that a receiver has got.
type received struct {
	at     time.Time
	url    string
	header http.Header
	body   string
}

// receiver is a transport that answers by itself.
type receiver struct {
	answer func(n int, r *http.Request) (status int, err error) // nil: 200
	header http.Header                                          // of all answers

	mu  sync.Mutex
	got []received
}

func (t *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	t.mu.Lock()
	n := len(t.got)
	t.got = append(t.got, received{time.Now(), r.URL.String(), r.Header, string(body)})
	t.mu.Unlock()
	status := http.StatusOK
	if t.answer != nil {
		var err error
		if status, err = t.answer(n, r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Header: t.header, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

func (t *receiver) all() []received {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.got)
}

// verify verifies a request as a receiver does that knows a secret.
func verify(r received, secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, r.header.Get("Webhook-Id")+"."+r.header.Get("Webhook-Timestamp")+"."+r.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !slices.Contains(strings.Split(r.header.Get("Webhook-Signature"), " "), want) {
		return errors.New("no signature with this secret")
	}
	return nil
}

// secret returns the text of a secret.
func secret(n byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
}
