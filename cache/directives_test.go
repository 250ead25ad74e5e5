package cache

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseDirectives(t *testing.T) {
	seconds := func(n int) delta { return delta{present: true, valid: true, value: time.Duration(n) * time.Second} }
	for name, test := range map[string]struct {
		lines []string
		want  directives
	}{
		"nothing":                               {nil, directives{}},
		"empty lines":                           {[]string{"", " ", ",,", "\t,"}, directives{}},
		"all":                                   {[]string{"no-store,no-cache, private ,must-revalidate\t, proxy-revalidate,must-understand"}, directives{noStore: true, noCache: true, private: true, mustRevalidate: true, proxyRevalidate: true, mustUnderstand: true}},
		"numbers":                               {[]string{"max-age=1, s-maxage=2", "stale-if-error=3"}, directives{maxAge: seconds(1), sMaxAge: seconds(2), staleIfError: seconds(3)}},
		"leading zeros":                         {[]string{"max-age=0000000000000000000000060"}, directives{maxAge: seconds(60)}},
		"largest":                               {[]string{"max-age=2147483648"}, directives{maxAge: seconds(1 << 31)}},
		"too large":                             {[]string{"max-age=2147483649"}, directives{maxAge: seconds(1 << 31)}},
		"far too large":                         {[]string{"max-age=" + strings.Repeat("8", 1000)}, directives{maxAge: seconds(1 << 31)}},
		"too large for an int64 of nanoseconds": {[]string{"max-age=9227000000, s-maxage=99999999999"}, directives{maxAge: seconds(1 << 31), sMaxAge: seconds(1 << 31)}},
		"plus sign":                             {[]string{"max-age=+1"}, directives{maxAge: delta{present: true}}},
		"zero and then one":                     {[]string{"max-age=0, max-age=1"}, directives{maxAge: delta{present: true}}},
		"invalid and then zero":                 {[]string{"max-age=x, max-age=0"}, directives{maxAge: delta{present: true}}},
		"fields":                                {[]string{`private="etag, ,Last-modified"`}, directives{privateFields: []string{"Etag", "Last-Modified"}}},
		"field without quotes":                  {[]string{`private=etag`}, directives{privateFields: []string{"Etag"}}},
		"fields and all":                        {[]string{`private="etag", private`}, directives{private: true, privateFields: []string{"Etag"}}},
		"no fields":                             {[]string{`private=" , "`}, directives{private: true}},
		"escapes":                               {[]string{`private="et\ag\"", no-store`}, directives{noStore: true, privateFields: []string{`etag"`}}},
		"open quote":                            {[]string{`private="etag, no-store`}, directives{private: true, noStore: true}},
		"open escape":                           {[]string{`private="etag, no-store, x\`}, directives{private: true, noStore: true}},
		"quote inside":                          {[]string{`x=a"b, no-store, y="`}, directives{noStore: true}},
		"after a string":                        {[]string{`max-age="1"2`}, directives{maxAge: delta{present: true}}},
		"equals sign twice":                     {[]string{`max-age=1=2`}, directives{maxAge: delta{present: true}}},
		"space before equals":                   {[]string{`max-age =1`}, directives{maxAge: delta{present: true}}},
		"prefix of a name":                      {[]string{`no-stor, no-stores, xno-store, "no-store"`}, directives{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseDirectives(test.lines); !reflect.DeepEqual(got, test.want) {
				t.Fatalf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// FuzzCacheControl holds the parser to what is true of any header: numbers stay
// in their range, case does not matter, lines may be joined or not, and nothing
// that is said before or after a prohibition lifts it.
func FuzzCacheControl(f *testing.F) {
	for _, seed := range []string{
		"", "max-age=9227000000", "no-store", "max-age=60, s-maxage=1", `private="a, b", no-cache="c`, `max-age="6\0"`, `x="\`, "max-age=99999999999999999999",
		"max-age=-1,max-age", "stale-if-error = 5", ",,=,;\x00, MAX-AGE=1", `"no-store"`, "public, must-revalidate, proxy-revalidate, must-understand",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		d := parseDirectives([]string{first, second})
		for name, number := range map[string]delta{"max-age": d.maxAge, "s-maxage": d.sMaxAge, "stale-if-error": d.staleIfError} {
			if number.value < 0 || number.value > maxSeconds*time.Second || number.value%time.Second != 0 {
				t.Errorf("%s is %v", name, number.value)
			}
			if number.valid && !number.present || !number.valid && number.value != 0 {
				t.Errorf("%s is %+v", name, number)
			}
			if number.present && !strings.Contains(strings.ToLower(first+","+second), name) {
				t.Errorf("%s came from nowhere", name)
			}
		}
		if reversed := parseDirectives([]string{second, first}); reversed.noStore != d.noStore || reversed.private != d.private || reversed.maxAge != d.maxAge {
			t.Errorf("the order of lines matters: %+v and %+v", d, reversed)
		}
		if upper := parseDirectives([]string{upperASCII(first), upperASCII(second)}); upper.noStore != d.noStore || upper.private != d.private || upper.maxAge != d.maxAge || upper.sMaxAge != d.sMaxAge {
			t.Errorf("case matters: %+v and %+v", d, upper)
		}
		for _, forbidding := range [][]string{{first, "no-store", second}, {first + ", no-store"}, {"no-store, " + second}} {
			if !parseDirectives(forbidding).noStore {
				t.Errorf("no-store is not seen in %q", forbidding)
			}
		}
		header := map[string][]string{"Cache-Control": {first}, "Expires": {second}, "Age": {second}, "Date": {first}, "Vary": {first, second}}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		config := Config{TTL: time.Minute, MaxTTL: time.Hour, StaleIfError: time.Hour}
		v := config.judge(header, now, now)
		if v.expires.After(now.Add(config.MaxTTL)) || v.staleUntil.After(v.expires.Add(config.StaleIfError)) {
			t.Errorf("%+v is longer than allowed", v)
		}
	})
}

func upperASCII(s string) string {
	upper := []byte(s)
	for i, b := range upper {
		if 'a' <= b && b <= 'z' {
			upper[i] = b - 'a' + 'A'
		}
	}
	return string(upper)
}
