package cache

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseDirectives(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		want  directives
	}{
		"nothing":     {nil, directives{}},
		"empty lines": {[]string{"", " ", ",,", "\t,"}, directives{}},
		"all": {
			[]string{"no-store,No-Cache, private ,must-revalidate\t, proxy-revalidate,must-understand", "max-age=1, s-maxage=2", "stale-if-error=3"},
			directives{
				"no-store": {""}, "no-cache": {""}, "private": {""}, "must-revalidate": {""}, "proxy-revalidate": {""}, "must-understand": {""},
				"max-age": {"1"}, "s-maxage": {"2"}, "stale-if-error": {"3"},
			},
		},
		"several":              {[]string{"max-age=0, max-age=1", "max-age=x"}, directives{"max-age": {"0", "1", "x"}}},
		"string":               {[]string{`private="etag, ,Last-modified"`}, directives{"private": {"etag, ,Last-modified"}}},
		"string and all":       {[]string{`private="etag", private`}, directives{"private": {"etag", ""}}},
		"field without quotes": {[]string{`private=etag`}, directives{"private": {"etag"}}},
		"escapes":              {[]string{`private="et\ag\"", no-store`}, directives{"no-store": {""}, "private": {`etag"`}}},
		"open quote":           {[]string{`private="etag, no-store`}, directives{"private": {""}, "no-store": {""}}},
		"open escape":          {[]string{`private="etag, no-store, x\`}, directives{"private": {""}, "no-store": {""}}},
		"quote inside":         {[]string{`x=a"b, no-store, y="`}, directives{"no-store": {""}}},
		"after a string":       {[]string{`max-age="1"2`}, directives{"max-age": {""}}},
		"equals sign twice":    {[]string{`max-age=1=2`}, directives{"max-age": {"1=2"}}},
		"space before equals":  {[]string{`max-age =1`}, directives{"max-age": {""}}},
		"parts of a name":      {[]string{`no-stor, no-stores, xno-store, "no-store"`}, directives{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseDirectives(test.lines); !reflect.DeepEqual(got, test.want) {
				t.Fatalf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestDirectivesInSeconds(t *testing.T) {
	for line, want := range map[string]int64{
		"max-age=1":                                1,
		`max-age="6\0", max-age=60`:                60,
		"max-age=0000000000000000000000060":        60,
		"max-age=2147483648":                       1 << 31,
		"max-age=2147483649":                       1 << 31,
		"max-age=9227000000":                       1 << 31, // too large for an int64 of nanoseconds
		"max-age=" + strings.Repeat("8", 1000):     1 << 31,
		"max-age=" + strings.Repeat("8", 20) + "x": 0,
		"max-age":                         0,
		"max-age=":                        0,
		"max-age=+1":                      0,
		"max-age=-1":                      0,
		"max-age=1=2":                     0,
		"max-age=0, max-age=1":            0,
		"max-age=x, max-age=0":            0,
		"max-age=1, max-age=2, max-age=1": 0,
	} {
		if got, stated := parseDirectives([]string{line}).seconds("max-age"); got != time.Duration(want)*time.Second || !stated {
			t.Errorf("%s: got %v, want %d seconds", line, got, want)
		}
	}
	if _, stated := parseDirectives([]string{"s-maxage=1"}).seconds("max-age"); stated {
		t.Error("a max-age that is not stated")
	}
}

func TestDirectivesLimitedToFields(t *testing.T) {
	for line, want := range map[string]struct {
		fields []string
		whole  bool
	}{
		"no-store":                       {nil, false},
		"private":                        {nil, true},
		`private=" , "`:                  {nil, true},
		`private="etag`:                  {nil, true},
		`private="etag, ,Last-modified"`: {[]string{"Etag", "Last-Modified"}, false},
		`private="etag", private`:        {[]string{"Etag"}, true},
	} {
		if fields, whole := parseDirectives([]string{line}).limitedTo("private"); !slices.Equal(fields, want.fields) || whole != want.whole {
			t.Errorf("%s: got %v and %v, want %v", line, fields, whole, want)
		}
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
		for _, name := range []string{"max-age", "s-maxage", "stale-if-error"} {
			value, stated := d.seconds(name)
			if value < 0 || value > maxSeconds*time.Second || value%time.Second != 0 || !stated && value != 0 {
				t.Errorf("%s is %v", name, value)
			}
			if stated && !strings.Contains(strings.ToLower(first+","+second), name) {
				t.Errorf("%s is not in the header", name)
			}
		}
		same := func(lines ...string) bool {
			other := parseDirectives(lines)
			for _, name := range understood {
				one, _ := d.seconds(name)
				two, _ := other.seconds(name)
				_, all := d.limitedTo(name)
				_, both := other.limitedTo(name)
				if one != two || all != both || d.has(name) != other.has(name) {
					return false
				}
			}
			return true
		}
		if !same(second, first) {
			t.Error("the order of lines matters")
		}
		if !same(upperASCII(first), upperASCII(second)) {
			t.Error("case matters")
		}
		for _, forbidding := range [][]string{{first, "no-store", second}, {first + ", no-store"}, {"no-store, " + second}} {
			if !parseDirectives(forbidding).has("no-store") {
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
