package discovery

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// blanks answers with as many.
type blanks int

func (b blanks) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(b), Body: io.NopCloser(strings.NewReader(strings.Repeat(" ", int(b)))), Request: r}, nil
}

// unobserved is an observer that does nothing.
type unobserved struct{}

func (unobserved) Exchange(context.Context, *exchange.Exchange) {}
func (unobserved) Notice(context.Context, *exchange.Notice)     {}

// S46: of the large descriptors of a source, so many are parsed at a time, and of the others, any number.
func TestParsedAtATime(t *testing.T) {
	for size, want := range map[int]int64{largeDocument: maxParsed, largeDocument - 1: 8} {
		synctest.Test(t, func(t *testing.T) {
			documents, err := cache.New(cache.Config{MaxSize: 1 << 20, TTL: time.Hour, MaxTTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer documents.Close()
			origin := &url.URL{Scheme: "https", Host: "acme.example"}
			hosts, err := credential.NewAllowedHosts(origin, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := &Reader{Cache: documents, Sender: exchange.Sender{
				Origin: origin, AllowedHosts: hosts, Transport: blanks(size), MaxResponseSize: 1 << 20, Limits: document.DefaultLimits(), Observer: unobserved{},
			}}
			var now, most atomic.Int64
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					of := wanted{address: address{kind: descriptorDocument, u: origin, text: origin.String() + "/" + strconv.Itoa(i)}}
					_, _ = r.document(t.Context(), of, func(*cache.Response) (any, error) {
						n := now.Add(1)
						for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
						}
						time.Sleep(time.Second)
						now.Add(-1)
						return nil, io.ErrUnexpectedEOF // it doesn't matter
					})
				})
			}
			all.Wait()
			if most.Load() != want {
				t.Errorf("%d of %d bytes are parsed at a time, want %d", most.Load(), size, want)
			}
		})
	}
}
