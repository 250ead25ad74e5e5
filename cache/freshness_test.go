package cache_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func TestFreshness(t *testing.T) {
	const never = 0
	for name, test := range map[string]struct {
		header func() http.Header // made under the scene's clock
		delay  time.Duration      // from the request to the answer
		want   time.Duration      // for how long the document is a hit
	}{
		"nothing stated":             {fixed(), 0, 5 * time.Minute},
		"nothing stated, older":      {fixed("Age", "60"), 0, 4 * time.Minute},
		"max-age":                    {fixed("Cache-Control", "max-age=60"), 0, time.Minute},
		"upper case":                 {fixed("Cache-Control", "MAX-AGE=60"), 0, time.Minute},
		"quoted":                     {fixed("Cache-Control", `max-age="60"`), 0, time.Minute},
		"quoted with escapes":        {fixed("Cache-Control", `max-age="6\0"`), 0, time.Minute},
		"among others":               {fixed("Cache-Control", `public, x="a, max-age=1", max-age=60`), 0, time.Minute},
		"on a later line":            {fixed("Cache-Control", "public", "Cache-Control", "max-age=60"), 0, time.Minute},
		"s-maxage first":             {fixed("Cache-Control", "max-age=60, s-maxage=90"), 0, 90 * time.Second},
		"s-maxage of zero":           {fixed("Cache-Control", "max-age=60, s-maxage=0"), 0, never},
		"same max-age twice":         {fixed("Cache-Control", "max-age=60, max-age=60"), 0, time.Minute},
		"two max-ages":               {fixed("Cache-Control", "max-age=60, max-age=90"), 0, never},
		"two max-ages and the first": {fixed("Cache-Control", "max-age=60, max-age=90, max-age=60"), 0, never},
		"max-age negative":           {fixed("Cache-Control", "max-age=-1"), 0, never},
		"max-age not a number":       {fixed("Cache-Control", "max-age=1h"), 0, never},
		"max-age fractional":         {fixed("Cache-Control", "max-age=60.5"), 0, never},
		"max-age empty":              {fixed("Cache-Control", "max-age="), 0, never},
		"max-age missing":            {fixed("Cache-Control", "max-age"), 0, never},
		"max-age after a space":      {fixed("Cache-Control", "max-age= 60"), 0, never},
		"max-age before junk":        {fixed("Cache-Control", "max-age=60 s"), 0, never},
		"max-age with an open quote": {fixed("Cache-Control", `max-age="60`), 0, never},
		"max-age not ASCII":          {fixed("Cache-Control", "max-age=٦٠"), 0, never},
		"s-maxage bad, max-age good": {fixed("Cache-Control", "s-maxage=x, max-age=60"), 0, never},
		"max-age too large to count": {fixed("Cache-Control", "max-age="+strings.Repeat("9", 400)), 0, 24 * time.Hour},
		"clamped":                    {fixed("Cache-Control", "max-age=172800"), 0, 24 * time.Hour},
		"clamped after the age":      {fixed("Cache-Control", "max-age=172800", "Age", "129600"), 0, 12 * time.Hour},
		"aged":                       {fixed("Cache-Control", "max-age=60", "Age", "20"), 0, 40 * time.Second},
		"as old as can be":           {fixed("Cache-Control", "max-age=60", "Age", "60"), 0, never},
		"older than can be":          {fixed("Cache-Control", "max-age=60", "Age", strings.Repeat("9", 400)), 0, never},
		"age list":                   {fixed("Cache-Control", "max-age=60", "Age", "20, 50"), 0, 40 * time.Second},
		"two ages":                   {fixed("Cache-Control", "max-age=60", "Age", "20", "Age", "50"), 0, 40 * time.Second},
		"age negative":               {fixed("Cache-Control", "max-age=60", "Age", "-20"), 0, time.Minute},
		"age not a number":           {fixed("Cache-Control", "max-age=60", "Age", "old"), 0, time.Minute},
		"slow answer":                {fixed("Cache-Control", "max-age=60"), 3 * time.Second, 57 * time.Second},
		"slow and aged":              {fixed("Cache-Control", "max-age=60", "Age", "20"), 3 * time.Second, 37 * time.Second},
		"dated in the past": {func() http.Header {
			return header("Cache-Control", "max-age=60", "Date", at(-10*time.Second))
		}, 0, 50 * time.Second},
		"dated in the past, slow": { // the delay is part of the apparent age
			func() http.Header {
				return header("Cache-Control", "max-age=60", "Date", at(-10*time.Second))
			}, 3 * time.Second, 50 * time.Second},
		"dated in the past, less than the age": {func() http.Header {
			return header("Cache-Control", "max-age=60", "Age", "20", "Date", at(-10*time.Second))
		}, 0, 40 * time.Second},
		"dated in the future": {func() http.Header {
			return header("Cache-Control", "max-age=60", "Date", at(time.Hour))
		}, 0, time.Minute},
		"dated long ago": {func() http.Header {
			return header("Cache-Control", "max-age=60", "Date", "Mon, 01 Jan 0001 00:00:00 GMT")
		}, 0, never},
		"no date": {fixed("Cache-Control", "max-age=60", "Date", "yesterday"), 0, time.Minute},
		"expires": {func() http.Header {
			return header("Expires", at(time.Minute), "Date", at(0))
		}, 0, time.Minute},
		"expires by a slow clock": {func() http.Header { // ten minutes behind, so ten minutes old
			return header("Expires", at(5*time.Minute), "Date", at(-10*time.Minute))
		}, 0, 5 * time.Minute},
		"expires by a fast clock": {func() http.Header {
			return header("Expires", at(15*time.Minute), "Date", at(10*time.Minute))
		}, 0, 5 * time.Minute},
		"expires without a date":     {func() http.Header { return header("Expires", at(time.Minute)) }, 0, time.Minute},
		"expires in the past":        {func() http.Header { return header("Expires", at(-time.Minute)) }, 0, never},
		"expires in old formats":     {func() http.Header { return header("Expires", time.Now().Add(time.Minute).Format(time.ANSIC)) }, 0, time.Minute},
		"expires at 0":               {fixed("Expires", "0"), 0, never},
		"expires empty":              {fixed("Expires", ""), 0, never},
		"expires beyond all clocks":  {fixed("Expires", "Fri, 31 Dec 9999 23:59:59 GMT"), 0, 24 * time.Hour},
		"expires twice":              {func() http.Header { return header("Expires", at(time.Minute), "Expires", at(time.Hour)) }, 0, never},
		"expires twice the same":     {func() http.Header { return header("Expires", at(time.Minute), "Expires", at(time.Minute)) }, 0, time.Minute},
		"max-age over expires":       {func() http.Header { return header("Cache-Control", "max-age=60", "Expires", at(-time.Hour)) }, 0, time.Minute},
		"bad max-age over expires":   {func() http.Header { return header("Cache-Control", "max-age=x", "Expires", at(time.Hour)) }, 0, never},
		"no-cache":                   {fixed("Cache-Control", "max-age=60, no-cache"), 0, never},
		"no-cache, qualified":        {fixed("Cache-Control", `max-age=60, no-cache="set-cookie"`), 0, time.Minute},
		"no-cache, of nothing":       {fixed("Cache-Control", `max-age=60, no-cache=""`), 0, never},
		"no-cache, both":             {fixed("Cache-Control", `max-age=60, no-cache="set-cookie", no-cache`), 0, never},
		"no-store":                   {fixed("Cache-Control", "max-age=60, No-Store"), 0, never},
		"no-store after open quote":  {fixed("Cache-Control", `max-age=60, x="a, no-store`), 0, never},
		"no-store on a line of its":  {fixed("Cache-Control", `max-age=60, x="`, "Cache-Control", `no-store, y=""`), 0, never},
		"no-store, quoted away":      {fixed("Cache-Control", `max-age=60, x="a, no-store"`), 0, time.Minute},
		"no-store with an argument":  {fixed("Cache-Control", "max-age=60, no-store=no"), 0, never},
		"no-store, must-understand":  {fixed("Cache-Control", "max-age=60, no-store, must-understand"), 0, time.Minute},
		"private":                    {fixed("Cache-Control", "max-age=60, private"), 0, never},
		"private, qualified":         {fixed("Cache-Control", `max-age=60, private="set-cookie, x"`), 0, time.Minute},
		"private, malformed":         {fixed("Cache-Control", `max-age=60, private=a b`), 0, never},
		"private over public":        {fixed("Cache-Control", "public, s-maxage=60, private"), 0, never},
		"directives we do not know":  {fixed("Cache-Control", "immutable, max-age=60, =, ;, stale-while-revalidate=9"), 0, time.Minute},
		"Pragma is for requests":     {fixed("Cache-Control", "max-age=60", "Pragma", "no-cache"), 0, time.Minute},
		"must-revalidate when fresh": {fixed("Cache-Control", "max-age=60, must-revalidate"), 0, time.Minute},
		"varies on fields":           {fixed("Cache-Control", "max-age=60", "Vary", "Accept, Cookie", "Vary", "X-New"), 0, time.Minute},
		"varies on nothing":          {fixed("Cache-Control", "max-age=60", "Vary", " , "), 0, time.Minute},
		"varies on everything":       {fixed("Cache-Control", "max-age=60", "Vary", "*"), 0, never},
		"varies on more than fields": {fixed("Cache-Control", "max-age=60", "Vary", "Cookie", "Vary", "Accept, *"), 0, never},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.delay = test.delay
				s.does(func(http.Header) (*cache.Response, error) {
					return &cache.Response{StatusCode: 200, Header: test.header(), Body: []byte("one")}, nil
				})
				doc := s.wants(cache.Fetched, "one", 1)
				if got := max(doc.ExpiresAt.Sub(doc.FetchedAt), 0); got != test.want {
					t.Fatalf("expires after %v, want %v", got, test.want)
				}
				if !doc.FetchedAt.Equal(time.Now()) {
					t.Fatalf("fetched at %v, want now, %v", doc.FetchedAt, time.Now())
				}
				if test.want > 0 {
					time.Sleep(test.want - time.Nanosecond)
					hit := s.wants(cache.Hit, "one", 1)
					if hit.Value != doc.Value || hit.URL != docURL || !hit.ExpiresAt.Equal(doc.ExpiresAt) || !hit.FetchedAt.Equal(doc.FetchedAt) {
						t.Fatalf("hit %+v, want the same as fetched %+v", hit, doc)
					}
					time.Sleep(time.Nanosecond)
				}
				s.wants(cache.Fetched, "one", 2)
			})
		})
	}
}

func fixed(pairs ...string) func() http.Header {
	return func() http.Header { return header(pairs...) }
}

func TestNotKept(t *testing.T) {
	for _, control := range []string{"no-store", "private", "no-store, max-age=60", "private, s-maxage=60"} {
		t.Run(control, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.says(200, header("Cache-Control", control, "ETag", `"1"`), "one")
				for n := range 3 {
					s.wants(cache.Fetched, "one", n+1)
					s.parsedTimes(n + 1)
					if s.sent.Get("If-None-Match") != "" {
						t.Fatal("a document that must not be kept was revalidated")
					}
				}
				s.fails(errNetwork)
				if err := s.wantsError(4); err == nil {
					t.Fatal("a document that must not be kept was served stale")
				}
			})
		})
	}
}

func TestZeroTTLRevalidatesEachTime(t *testing.T) {
	zero := config
	zero.TTL = 0
	play(t, zero, func(s scene) {
		s.wants(cache.Fetched, "one", 1)
		s.wants(cache.Fetched, "one", 2)
		s.parsedTimes(1)
	})
}

func TestMaxTTLBoundsTTL(t *testing.T) {
	bounded := config
	bounded.MaxTTL = time.Minute
	play(t, bounded, func(s scene) {
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(time.Minute)
		s.wants(cache.Fetched, "one", 2)
	})
}

func TestLargestDurations(t *testing.T) {
	const forever = math.MaxInt64
	play(t, cache.Config{MaxSize: math.MaxInt64, TTL: forever, MaxTTL: forever, StaleIfError: forever, NegativeTTL: forever}, func(s scene) {
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(time.Hour)
		s.wants(cache.Hit, "one", 1)
		s.cache.Delete(docURL, "")
		s.says(404, nil, "")
		s.wantsStatus(404, false, 2)
		time.Sleep(time.Hour)
		s.wantsStatus(404, true, 2)
	})
}
