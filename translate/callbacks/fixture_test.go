package callbacks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/internal/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// keys has one key.
type keys struct{ runtoken.Key }

func (k keys) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }
func (k keys) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, id == k.ID, nil
}

func keyOf(n byte) keys {
	return keys{runtoken.RestoreKey(runtoken.KeyID{n}, runtoken.Secret{n + 1}, time.Time{})}
}

// store is a [run.Store] in memory.
type store struct {
	mu      sync.Mutex
	records map[string]map[string]*run.Record // the newest ones by owner and id
	locks   map[string]chan struct{}
	fails   error
}

func newStore() *store {
	return &store{records: map[string]map[string]*run.Record{}, locks: map[string]chan struct{}{}}
}

// crashed returns the store as the next process finds it after a crash: without locks.
func (s *store) crashed() *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := newStore()
	for owner, records := range s.records {
		next.records[owner] = maps.Clone(records)
	}
	return next
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *store) Put(_ context.Context, records ...*run.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	for _, r := range records {
		own := *r
		own.Data = bytes.Clone(r.Data)
		of := s.records[r.Owner]
		if of == nil {
			of = map[string]*run.Record{}
			s.records[r.Owner] = of
		}
		if old := of[r.ID]; old == nil || old.Version().Compare(r.Version()) < 0 {
			of[r.ID] = &own
		}
	}
	return nil
}

func (s *store) Get(ctx context.Context, owner, id string) (*run.Record, error) {
	s.mu.Lock()
	err := s.fails
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r, _ := s.Newer(ctx, owner, id, run.Version{})
	if r == nil {
		return nil, run.ErrNoRecord
	}
	return r, run.MakeRoom(ctx, int64(len(r.Data)))
}

func (s *store) Newer(_ context.Context, owner, id string, than run.Version) (*run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[owner][id]; r != nil && r.Version().Compare(than) > 0 {
		own := *r
		return &own, nil
	}
	return nil, nil
}

func (s *store) List(_ context.Context, owner string, most int, need func(string, run.Version) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		s.mu.Lock()
		of := maps.Clone(s.records[owner])
		s.mu.Unlock()
		for id, r := range of {
			if most--; most < 0 || need(id, r.Version()) && !yield(r, nil) {
				return
			}
		}
	}
}

func (*store) Name(context.Context, string, string, string) error { return nil }
func (*store) Named(context.Context, string, string) (string, error) {
	return "", run.ErrNoRecord
}
func (*store) Trim(context.Context, run.Bounds, func(id string) bool) error { return nil }

func (s *store) Lock(ctx context.Context, owner, id string) (func(), error) {
	s.mu.Lock()
	key := owner + "\n" + id
	if s.locks[key] == nil {
		s.locks[key] = make(chan struct{}, 1)
	}
	held := s.locks[key]
	s.mu.Unlock()
	select {
	case held <- struct{}{}:
		return sync.OnceFunc(func() { <-held }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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

	mu   sync.Mutex
	got  []received
	open int
}

func (t *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	t.mu.Lock()
	n := len(t.got)
	t.got = append(t.got, received{time.Now(), r.URL.String(), r.Header, string(body)})
	t.open++
	t.mu.Unlock()
	defer func() { t.mu.Lock(); t.open--; t.mu.Unlock() }()
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

// to returns how many requests a host has got.
func (t *receiver) to(host string) (n int) {
	for _, r := range t.all() {
		if strings.Contains(r.url, "//"+host+"/") {
			n++
		}
	}
	return n
}

func (t *receiver) inProgress() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// hang answers when the request ends.
func hang(_ int, r *http.Request) (int, error) {
	<-r.Context().Done()
	return 0, r.Context().Err()
}

// instance is an instance of the bridge with kept runs and call-backs.
type instance struct {
	*keptruns.Runs
	*callbacks.Callbacks
	t      *testing.T
	bridge *translate.Bridge

	mu       sync.Mutex
	attempts []callbacks.Attempt
}

const realm = "realm\n"

// start starts an instance of a bridge to a provider of the skill sum.
func start(t *testing.T, p *providertest.Provider, s *store, to *receiver) *instance {
	t.Helper()
	bridge, err := translate.New(providertest.Config(t, p.Source(t, "acme")))
	if err != nil {
		t.Fatal(err)
	}
	runs := keptruns.New(keptruns.Config{Store: s, Bounds: keptruns.Bounds{Open: 50_000, OpenOfOne: 50_000, RunsOfOne: 50_000}})
	i := &instance{Runs: runs, t: t, bridge: bridge}
	i.Callbacks = i.configuration(callbacks.New(runs, s), to, keyOf(1))
	i.Runs.Begin(i)
	i.Callbacks.Begin()
	return i
}

// configuration returns a configuration for call-backs.
func (i *instance) configuration(d *callbacks.Deliverer, to *receiver, k keys) *callbacks.Callbacks {
	return &callbacks.Callbacks{
		Client:    webhook.Client{Transport: to, Judge: func(context.Context, *url.URL) error { return nil }},
		Deliverer: d, Sealer: runtoken.New(k, runtoken.Lifetime, nil), Owns: i.Owns,
		Caller: func(owner string) run.Caller {
			return run.Caller{Principal: strings.TrimPrefix(owner, realm), Front: "test"}
		},
		Body: func(_ context.Context, caller run.Caller, r *keptruns.Record, o *run.Run) []byte {
			switch {
			case o == nil:
				return []byte(caller.Principal + " too large")
			case o.Failure != nil:
				return []byte(caller.Principal + " " + o.Failure.Message)
			}
			return []byte(caller.Principal + " " + r.Skill + " " + o.State.String() + " " + string(o.Output))
		},
		Attempted: func(a *callbacks.Attempt) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.attempts = append(i.attempts, *a)
		},
		Panicked: func(_ context.Context, v any, stack []byte) { i.t.Errorf("%v\n%s", v, stack) },
	}
}

func (i *instance) Owns(o string) bool { return strings.HasPrefix(o, realm) }

func (i *instance) Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution {
	return i.bridge.Resume(ctx, ref, call)
}

func (i *instance) Room(string) exchange.AnswerBudget { return nil }

func (i *instance) Canceled(context.Context, string, *run.Ref) bool { return false }

func (i *instance) Ended(_ context.Context, r *keptruns.Record, _ *run.Run) { i.Deliverer.Ended(r) }

// stop ends the process.
func (i *instance) stop() {
	i.Callbacks.End()
	i.Runs.End(i)
	i.Runs.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	i.Deliverer.Close(ctx)
}

// given returns the attempts so far.
func (i *instance) given() []callbacks.Attempt {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.attempts)
}

// call executes a skill whose run has a call-back. It does not wait for the end of the run.
func (i *instance) call(principal, to, token, args string) keptruns.Answer {
	i.t.Helper()
	q := &keptruns.Request{Owner: realm + principal, Keep: i.Keep, Call: translate.Call{
		Caller: run.Caller{Principal: principal, Front: "test", Method: "execute"}, Name: "acme.sum", Inputs: jsonrpc.Object{Text: jsontext.Value(args)},
		Wait: new(time.Duration),
	}}
	var err error
	if q.Notes, err = i.Notes(i.t.Context(), q.Owner, to, token); err != nil {
		i.t.Error(err)
	}
	return i.Execute(i.t.Context(), i.bridge, q)
}

func provider() *providertest.Provider {
	p := providertest.New()
	p.Publish(providertest.Skill("acme/sum", nil))
	return p
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
