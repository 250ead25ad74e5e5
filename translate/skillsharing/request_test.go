package skillsharing

import (
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestS360QueryOfManyInputs: the work of a query grows with its length. Inputs that the skill does not define are sent, too, so callers decide how many there are.
func TestS360QueryOfManyInputs(t *testing.T) {
	var inputs strings.Builder
	const n = 20_000
	for i := range n {
		inputs.WriteString(`,"i` + strconv.Itoa(i) + `":1`)
	}
	text := jsontext.Value("{" + inputs.String()[1:] + "}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := withQuery(&url.URL{Scheme: "https", Host: "acme.example", RawQuery: "key=k"}, text)
	runtime.ReadMemStats(&after)
	if err != nil || strings.Count(u.RawQuery, "&") != n || !strings.HasSuffix(u.RawQuery, "&i19999=1") || !strings.HasPrefix(u.RawQuery, "key=k&i0=1&") {
		t.Fatal(u, err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > uint64(30*len(text)) {
		t.Errorf("%d KB for %d KB of inputs", taken>>10, len(text)>>10)
	}
}
