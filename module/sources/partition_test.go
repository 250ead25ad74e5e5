package sources

import (
	"os"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

func TestPartition(t *testing.T) {
	secret := t.TempDir() + "/secret"
	write := func(text string) {
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	namespace := "acme"
	from := func(kind int, origin string, trust []string, credentials, transport string) string {
		u, err := parseOrigin("origin", "/index", origin)
		if err != nil {
			t.Fatal(err)
		}
		s := &catalog.Source{Kind: catalog.SourceKind(kind), Namespace: namespace, URL: u, Trust: trust}
		p, err := partition(s, []byte(credentials), []byte(transport))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	of := func(kind int, credentials, transport string) string {
		return from(kind, "https://a.example", nil, credentials, transport)
	}
	credentials := `{"type":"api_key","key":"{file.` + secret + `}"}`
	write("one")
	one := of(0, credentials, "")
	if again := of(0, credentials, ""); again != one {
		t.Error("the same settings have two partitions")
	}
	if from(0, "https://a.example", []string{"t.example"}, "", "") != of(0, "", "") {
		t.Error("without credentials, trusted hosts make a difference")
	}
	trusting := from(0, "https://a.example", []string{"t.example", "u.example"}, `{"type":"api_key","key":"x"}`, "")
	if from(0, "https://a.example", []string{"u.example", "t.example"}, `{"type":"api_key","key":"x"}`, "") != trusting {
		t.Error("the order of trusted hosts makes a difference")
	}
	namespace = "other"
	other := of(0, credentials, "")
	namespace = "acme"
	write("two")
	seen := map[string]string{one: "one"}
	for name, p := range map[string]string{
		"other namespace":  other,
		"changed file":     of(0, credentials, ""),
		"no credentials":   of(0, "", ""),
		"other kind":       of(1, "", ""),
		"own transport":    of(0, "", `{"protocol":"http"}`),
		"other credential": of(0, `{"type":"api_key","key":"x"}`, ""),
		"other origin":     from(0, "https://b.example", nil, `{"type":"api_key","key":"x"}`, ""),
		"no credentials b": from(0, "https://b.example", nil, "", ""),
		"other scheme":     from(0, "http://a.example", nil, `{"type":"api_key","key":"x"}`, ""),
		"trusted hosts":    trusting,
		"other trusted":    from(0, "https://a.example", []string{"t.example", "v.example"}, `{"type":"api_key","key":"x"}`, ""),
		"one trusted host": from(0, "https://a.example", []string{"t.example"}, `{"type":"api_key","key":"x"}`, ""),
	} {
		if other, ok := seen[p]; ok {
			t.Errorf("%s shares the partition of %s", name, other)
		}
		if len(p) != 64 || strings.Contains(p, "one") {
			t.Errorf("%s: %q is no digest", name, p)
		}
		seen[p] = name
	}
}
