package translate_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

func TestTraceIDOf(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "-00f067aa0ba902b7"
	for traceParent, want := range map[string]string{
		"00-" + id + parent + "-01":                            id,
		"01-" + id + parent + "-01":                            id, // of a later version
		"cc-" + id + parent + "-01-what-the-future-will-be":    id,
		"00-" + id + parent + "-01-more":                       "",
		"ff-" + id + parent + "-01":                            "",
		"1-" + id + parent + "-01":                             "",
		"0x-" + id + parent + "-01":                            "",
		"01-" + id + parent:                                    "",
		"01-" + id + parent + "-1":                             "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736" + parent + "-01": "",
		"00-00000000000000000000000000000000" + parent + "-01": "",
		"00-" + id + "-0000000000000000-01":                    "",
		"":                                                     "",
	} {
		if got := translate.TraceIDOf(traceParent); got != want {
			t.Errorf("%q: %q, want %q", traceParent, got, want)
		}
	}
}
