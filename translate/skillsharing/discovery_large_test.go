package skillsharing_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// largeDescriptors is a client of a registry. The descriptors at hosts whose names begin with slow do not come to their ends: after 150 KiB, there is a byte
// a second. Those of others have as many KiB of blanks before them, of which 16 arrive every 5 ms, or,
// if the names begin with late, that after 2 s. Those of big and late have a Content-Length.
func largeDescriptors(t *testing.T, kib int) (c *skillsharing.Client, read func(host, id string) *run.Failure) {
	t.Helper()
	c, _ = breaking(t, func(r *http.Request) (*http.Response, error) {
		blanks, at, pause := kib, 16<<10, 5*time.Millisecond
		if strings.HasPrefix(strings.ToLower(r.URL.Host), "slow") {
			blanks, at, pause = 1<<10, 1, time.Second
		}
		if strings.HasPrefix(r.URL.Host, "late") {
			time.Sleep(2 * time.Second)
		}
		text := strings.Repeat(" ", blanks<<10) + string(edited(t, forecast))
		length := int64(-1)
		if strings.HasPrefix(r.URL.Host, "big") || strings.HasPrefix(r.URL.Host, "late") {
			length = int64(len(text))
		}
		reader, writer := io.Pipe()
		go func() {
			if at == 1 {
				_, _ = io.WriteString(writer, text[:150<<10])
			}
			for err := error(nil); text != "" && err == nil; {
				time.Sleep(pause)
				n := min(at, len(text))
				_, err = io.WriteString(writer, text[:n])
				text = text[n:]
			}
			_ = writer.Close() // always nil
		}()
		context.AfterFunc(r.Context(), func() { _ = reader.CloseWithError(r.Context().Err()) }) // as a Transport must; always nil
		resp := httptest.NewRecorder().Result()
		resp.Header.Set("Content-Type", "application/json")
		resp.ContentLength, resp.Body = length, reader
		return resp, nil
	})
	c.Breakers = exchange.NewBreakers(exchange.BreakerConfig{Failures: 1, Cooldown: 10 * time.Second, Patience: 5 * time.Second})
	c.Limits.BodyTimeout = 3 * time.Second
	c.Cache = newCache(t, 0, time.Nanosecond)
	return c, func(host, id string) *run.Failure {
		_, _, e := c.SkillDocument(t.Context(), discovery.NewLocation("https://"+host+"/"+id), id, discovery.Names{})
		return e
	}
}

// TestR243SlowLargeDescriptors: a publisher whose large descriptors come slowly does not keep those of others from being read.
func TestR243SlowLargeDescriptors(t *testing.T) {
	for name, of := range map[string]func(i int) (host, publisher string){
		"one publisher":                         func(int) (string, string) { return "slow.example", "evil" },
		"one, with many hosts":                  func(i int) (string, string) { return "slow" + strconv.Itoa(i) + ".example", "evil" },
		"many, with one host":                   func(i int) (string, string) { return "slow.example", "evil" + strconv.Itoa(i) },
		"many, with one host in many spellings": func(i int) (string, string) { return spelt("slow.example", i), "evil" + strconv.Itoa(i) },
		"two, with a host each": func(i int) (string, string) {
			return "slow" + strconv.Itoa(i%2) + ".example", "evil" + strconv.Itoa(i%2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, read := largeDescriptors(t, 300)
				for i := range 32 {
					host, publisher := of(i)
					go read(host, publisher+"/"+strconv.Itoa(i))
				}
				time.Sleep(10 * time.Millisecond)
				began := time.Now()
				if e := cmp.Or(read("big.example", "acme/forecast"), read("other.example", "acme/forecast")); e != nil || time.Since(began) > time.Second {
					t.Errorf("%v after %s", e, time.Since(began))
				}
				time.Sleep(time.Minute) // the others end
			})
		})
	}
}

// R243: large descriptors of one host that don't say how long they are wait for each other, and none fails.
func TestLargeDescriptorsOfOneHost(t *testing.T) {
	for kib, most := range map[int]int64{500: 0, 40: 256 << 10, 240: 256 << 10} {
		t.Run(strconv.Itoa(kib), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, read := largeDescriptors(t, kib)
				c.Limits.DocumentSize = most
				var all sync.WaitGroup
				for i := range 16 {
					all.Go(func() {
						if e := read("other.example", "acme/"+strconv.Itoa(i)); e != nil && e.Kind == run.RateLimited {
							t.Errorf("%+v", e)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// R243: a descriptor for which there is no room, or not in time, says nothing about its host: the circuit breaker stays closed, the URL is not paused, and
// the failure is the bridge's.
func TestNoRoomForLargeDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, read := largeDescriptors(t, 150)
		c.Limits.DocumentSize = 256 << 10
		for round := range 4 {
			var all sync.WaitGroup
			fail := func(host string) {
				all.Go(func() {
					e := read(host, "acme/forecast")
					if e == nil || e.Kind != run.RateLimited || e.By != run.Bridge || e.Executed != run.ExecutedNo || e.Limit == nil || e.Limit.Name != "reads_size" ||
						e.Limit.Max != 1<<20 || e.Next() != run.NextRetry {
						t.Errorf("%s: %+v", host, e)
					}
				})
			}
			fail("late.example")
			time.Sleep(10 * time.Millisecond)
			for i := range 12 {
				all.Go(func() {
					of := strconv.Itoa(12*round + i)
					read("slow"+of+".example", "evil"+of+"/a")
				})
			}
			time.Sleep(20 * time.Millisecond)
			fail("big.example") // the others end before it would, but too late
			fail("other.example")
			all.Wait()
		}
		for _, s := range c.Breakers.States() {
			if !strings.Contains(s.Host, "slow") {
				t.Errorf("%+v", s)
			}
		}
		if e := read("big.example", "acme/forecast"); e != nil {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute) // the others end
	})
}

// emptied is a budget whose room for others is taken when a document has been read: more than it has is refused, and takes all.
type emptied struct{ has int64 }

func (b *emptied) Reserve(size int64) bool {
	if size > b.has {
		b.has = 0
		return false
	}
	b.has = size
	return true
}

func (b *emptied) Await(_ context.Context, size, _ int64) bool { b.has = size; return true }
func (b *emptied) Release()                                    { b.has = 0 }
func (b *emptied) AnswerLimit() (string, int64)                { return "", 0 }

// R243: a document that has been read keeps its room until it has been parsed, also if there is no more.
func TestDocumentKeepsItsRoom(t *testing.T) {
	text := strings.Repeat(" ", 100<<10)
	c := newClient(t, acme, script(t, says(200, text)))
	req := c.NewRequest(t.Context(), run.PhaseDescriptor, http.MethodGet, c.Origin, nil, http.Header{}, nil)
	budget := new(emptied)
	req.Budget = budget
	if a, err := c.Send(run.PhaseDescriptor, req); err != nil || !a.IsWhole() || budget.has != int64(len(text)) {
		t.Errorf("%v, %d bytes reserved", err, budget.has)
	}
}

// spelt returns one of many spellings of a host.
func spelt(host string, number int) string {
	text := []byte(host)
	for i := range text {
		if number>>i&1 == 1 {
			text[i] = bytes.ToUpper(text[i : i+1])[0]
		}
	}
	return string(text) + [...]string{"", ":443", ":"}[number%3]
}
