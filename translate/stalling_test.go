package translate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/agentskills"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// hosts are servers of documents without a network.
type hosts struct {
	mu       sync.Mutex
	lists    map[string][]string // URLs of descriptors, by the host of a source
	delays   map[string]time.Duration
	requests map[string]int // for descriptors, by host
}

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	host, isIndex := r.URL.Host, r.URL.Path == "/skills" || r.URL.Path == "/.well-known/skill-sharing"
	h.mu.Lock()
	delay, urls := h.delays[host], h.lists[host]
	if !isIndex {
		h.requests[host]++
		delay = max(delay, h.delays[host+r.URL.Path])
	}
	h.mu.Unlock()
	if isIndex {
		delay = h.delays["index of "+host]
	}
	if delay > 0 { // the race detector can't stand a channel of time.After(0) in a bubble
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if !isIndex {
		w := httptest.NewRecorder()
		providertest.Answer(http.StatusOK, descriptor(strings.TrimPrefix(r.URL.Path, "/"), object{"endpoint": object{
			"url": "https://" + host + "/run", "status_url": nil, "result_url": nil,
		}}))(w, r)
		return w.Result(), nil
	}
	entries := make([]string, 0, len(urls))
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		entries = append(entries, fmt.Sprintf(`{"id":%q,"name":"S","capability_type":"api","description":"d","descriptor_url":%q,"access":"public","version":"1.0.0"}`, strings.TrimPrefix(u.Path, "/"), text))
	}
	return jsonResponse(fmt.Appendf(nil, `{"protocol":{"version":"1.0.0"},"provider":{"name":"P"},"skills":[%s]}`, strings.Join(entries, ","))), nil
}

// add lists n skills of a publisher at a host, in the order of their names.
func (h *hosts) add(source, publisher, host string, n int) {
	for i := range n {
		h.lists[source] = append(h.lists[source], fmt.Sprintf("https://%s/%s/s%04d", host, publisher, i))
	}
}

// delay sets how long a host takes for each answer.
func (h *hosts) delay(host string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delays[host] = d
}

const never = 24 * time.Hour

// bridge returns a bridge with the sources that have lists; those whose names begin with an r are registries.
func (h *hosts) bridge(t *testing.T) *translate.Bridge {
	t.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 64 << 20, TTL: 5 * time.Minute, MaxTTL: time.Hour, StaleIfError: time.Hour, NegativeTTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		time.Sleep(time.Minute) // what is being read ends
		documents.Close()
	})
	config := translate.Config{Cache: documents, DefaultTimeout: time.Minute, MaxTimeout: time.Minute, MaxResponseSize: 8 << 20, Limits: document.DefaultLimits()}
	for host := range h.lists {
		s := catalog.Source{Namespace: host, URL: &url.URL{Scheme: "https", Host: host}, Transport: h, Partition: host}
		if strings.HasPrefix(host, "r") {
			s.Kind = catalog.RegistrySource
		}
		config.Sources = append(config.Sources, s)
	}
	b, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newHosts() *hosts {
	return &hosts{lists: map[string][]string{}, delays: map[string]time.Duration{}, requests: map[string]int{}}
}

// listAll reads all pages of tools, and returns the names, and how long each page took.
func listAll(b *translate.Bridge) (names []string, took []time.Duration) {
	q := translate.Query{Limit: 100, Descriptors: 100, Executable: true}
	for {
		start := time.Now()
		l := b.List(context.Background(), q)
		took = append(took, time.Since(start))
		for _, e := range l.Skills {
			names = append(names, e.Name)
		}
		if q.AfterTool = l.NextAfter; q.AfterTool == "" {
			return names, took
		}
	}
}

// sum returns the sum of times.
func sum(all []time.Duration) (total time.Duration) {
	for _, d := range all {
		total += d
	}
	return total
}

// count returns how many names have a prefix.
func count(names []string, prefix string) (n int) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// Skills whose descriptors stall, however many there are and in whatever order, take a list some seconds once, not for each of its pages, and keep no
// skill of others out: neither of other sources, nor of other publishers of the same registry, nor of the same provider at other hosts.
func TestStallingDescriptors(t *testing.T) {
	for about, c := range map[string]struct {
		change func(h *hosts)
		most   time.Duration // for all pages
		others []string      // prefixes of the names that are listed in any case, 150 each
	}{
		"a source": {func(h *hosts) {
			h.add("a", "pub", "stalls.example", 1500)
			h.add("b", "other", "good.example", 150)
			h.delay("stalls.example", never)
		}, 10 * time.Second, []string{"b."}},
		"a source that answers at last": {func(h *hosts) {
			h.add("a", "pub", "stalls.example", 1500)
			h.add("b", "other", "good.example", 150)
			h.delay("stalls.example", 9700*time.Millisecond)
		}, 15 * time.Second, []string{"b."}},
		"a publisher": {func(h *hosts) {
			h.add("registry", "aaa", "stalls.example", 1500)
			h.add("registry", "zzz", "good.example", 150)
			h.delay("stalls.example", never)
			h.delay("good.example", 500*time.Millisecond)
		}, 25 * time.Second, []string{"registry.zzz."}},
		"a publisher at the host of others": {func(h *hosts) {
			h.add("registry", "aaa", "same.example:444", 90)
			h.add("registry", "zzz", "same.example:445", 150)
			h.delay("same.example:444", never)
			h.delay("same.example:445", 100*time.Millisecond)
		}, 15 * time.Second, []string{"registry.zzz."}},
		"hosts of a provider": {func(h *hosts) {
			for i := range 15 {
				h.add("a", fmt.Sprintf("pub/%c", 'a'+i), fmt.Sprintf("stalls%d.example", i), 50)
				h.delay(fmt.Sprintf("stalls%d.example", i), never)
			}
			h.add("a", "pub/z", "good.example", 150)
			h.delay("good.example", 100*time.Millisecond)
		}, 20 * time.Second, []string{"a.pub.z."}},
		"more hosts than are read at a time": {func(h *hosts) {
			for i := range 100 {
				h.add("registry", fmt.Sprintf("a%d", i), fmt.Sprintf("stalls%d.example", i), 1)
				h.delay(fmt.Sprintf("stalls%d.example", i), never)
			}
			h.add("registry", "zzz", "good.example", 150)
			h.delay("good.example", 100*time.Millisecond)
		}, 25 * time.Second, []string{"registry.zzz."}},
		"many publishers": {func(h *hosts) {
			for i := range 1500 {
				h.add("registry", fmt.Sprintf("a%d", i), fmt.Sprintf("stalls%d.example", i), 1)
				h.delay(fmt.Sprintf("stalls%d.example", i), never)
			}
			h.add("b", "other", "good.example", 150)
		}, 25 * time.Second, []string{"b."}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHosts()
				c.change(h)
				names, took := listAll(h.bridge(t))
				if sum(took) > c.most {
					t.Errorf("%d pages took %s", len(took), took)
				}
				for _, prefix := range c.others {
					if n := count(names, prefix); n != 150 {
						t.Errorf("%d skills of %s are listed: %.200q", n, prefix, names)
					}
				}
			})
		})
	}
}

// Descriptors that arrive so slowly that the patience with their host never ends take a list as a whole ten seconds, and the next ones less.
func TestTricklingDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("a", "pub", "slow.example", 1500)
		h.delay("slow.example", 2500*time.Millisecond)
		h.add("b", "other", "good.example", 150)
		names, took := listAll(h.bridge(t))
		if took[0] != 10*time.Second || sum(took) > 40*time.Second {
			t.Errorf("%s", took)
		}
		if n := count(names, "b."); n != 150 {
			t.Errorf("%d skills of the other", n)
		}
	})
}

// The descriptors of a host that come first stall: the first lists have others of the host nevertheless, and later ones all.
func TestStallingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("a", "pub", "same.example", 36)
		for i := range 16 {
			h.delay(fmt.Sprintf("same.example/pub/s%04d", i), never)
		}
		b, listed := h.bridge(t), 0
		for i := range 40 { // each reads a random part of them
			names, _ := listAll(b)
			if listed = len(names); i == 3 && listed == 0 {
				t.Error("no skill is listed")
			}
			time.Sleep(30 * time.Second)
		}
		if listed != 20 {
			t.Errorf("%d skills of 20", listed)
		}
	})
}

// A page that reads a part of the descriptors reads those that it shows first, unless their host has stalled.
func TestReadDescriptorsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("a", "pub", "good.example", 200)
		h.delay("good.example", 10*time.Millisecond)
		b := h.bridge(t)
		l := b.List(t.Context(), translate.Query{Limit: 200})
		translate.ReadDescriptors(t.Context(), b, run.Caller{}, l.Skills, 20_000)
		read := 0
		for ; read < len(l.Skills) && l.Skills[read].Descriptor != nil; read++ {
		}
		if all := h.requests["good.example"]; read < 10 || read > 100 || read < all-8 { // eight are read at a time, in any order
			t.Errorf("%d descriptors were read, and %d are the first ones", all, read)
		}
	})
}

// A slow provider is read at its own pace: each list has what earlier ones have begun to read, so that all skills are listed at last.
func TestSlowDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("a", "pub", "slow.example", 60)
		h.delay("slow.example", 4*time.Second)
		b := h.bridge(t)
		listed := 0
		for range 12 {
			names, _ := listAll(b)
			if len(names) < listed {
				t.Errorf("%d skills, after %d", len(names), listed)
			}
			listed = len(names)
			time.Sleep(5 * time.Second)
		}
		if listed != 60 || h.requests["slow.example"] != 60 {
			t.Errorf("%d skills, %d requests", listed, h.requests["slow.example"])
		}
	})
}

// Skills that were read before stay listed while their host, or the server of the list, stalls.
func TestStallingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("a", "pub", "a.example", 300)
		h.add("registry", "pub", "r.example", 30)
		b := h.bridge(t)
		before, _ := listAll(b)
		if len(before) != 330 {
			t.Fatalf("%d skills", len(before))
		}
		for _, host := range []string{"a.example", "r.example", "index of a", "index of registry"} {
			h.delay(host, never)
		}
		time.Sleep(6 * time.Minute) // they are not fresh any more
		for i := range 5 {
			names, took := listAll(b)
			if !slices.Equal(names, before) || sum(took) > 20*time.Second || i > 2 && sum(took) > 3*time.Second {
				t.Errorf("%d skills after %s", len(names), took)
			}
			time.Sleep(15 * time.Second)
		}
	})
}

// The Agent Skills index has the skills of the others as soon as without a source that stalls, but for some seconds.
func TestStallingAgentSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("a", "pub", "stalls.example", 1500)
		h.delay("stalls.example", 9700*time.Millisecond)
		h.add("registry", "aaa", "stalls.example", 500)
		h.add("registry", "zzz", "good.example", 500)
		h.add("z", "other", "good.example", 1000)
		site := agentskills.NewSite(h.bridge(t))
		start := time.Now()
		w := httptest.NewRecorder()
		site.Serve(context.Background(), w, httptest.NewRequest(http.MethodGet, "/.well-known/agent-skills/index.json", nil), run.Caller{}, "https://bridge.example/rpc")
		text := w.Body.String()
		if n, m := strings.Count(text, `"name":"registry-zzz-`), strings.Count(text, `"name":"z-other-`)+strings.Count(text, `"name":"z-s`); w.Code != 200 || n != 500 || m != 1000 {
			t.Errorf("%d: %d and %d skills of the others: %.300s", w.Code, n, m, text)
		}
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A call of a name that may be of a source whose index stalls waits for it, and the answer names that source.
func TestNamesWhileAnIndexStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		h.add("good", "pub", "good.example", 3)
		h.add("slow", "pub", "slow.example", 3)
		h.delay("index of slow", never)
		b := h.bridge(t)
		for name, c := range map[string]struct {
			kind    run.Kind
			message string // a part
		}{
			"nope":        {run.SkillNotFound, "can't be read at the moment: 'slow'"},
			"good_nope":   {run.SkillNotFound, "can't be read at the moment: 'slow'"},
			"pub.s0001":   {run.InvalidArguments, "say 'good.pub.s0001'. (Not searched, because they can't be read at the moment: 'slow'.)"},
			"slow.nope":   {run.Unreachable, "The documents of the source 'slow' could not be read within 10s."},
			"slow_nope":   {run.Unreachable, "The documents of the source 'slow' could not be read within 10s."},
			"good.nope":   {run.SkillNotFound, "skill 'good.nope' not found."}, // without waiting
			"good_pub_s0": {run.SkillNotFound, "can't be read at the moment: 'slow'"},
		} {
			for _, timeout := range []time.Duration{0, 3 * time.Second} {
				time.Sleep(time.Minute)
				_, failure := b.Describe(t.Context(), translate.Call{Name: name, Timeout: timeout})
				want := c
				if timeout > 0 && c.kind == run.Unreachable {
					want.kind, want.message = run.DeadlineExceeded, "The deadline passed before the index of the source 'slow' had been read: time was up after 3000 ms."
				}
				if failure == nil || failure.Kind != want.kind || !strings.Contains(failure.Message, want.message) {
					t.Errorf("%s within %s: %v, want %s", name, timeout, failure, want.message)
				}
			}
		}
	})
}
