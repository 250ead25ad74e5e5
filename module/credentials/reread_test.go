package credentials

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestRereadPanics: a panic while a refused credential is read again is logged once, and calls use the earlier one.
func TestRereadPanics(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	read := func(*resolver) (string, error) { panic("a bug") }
	v := &rereadable[string]{build: read, logger: zap.New(core), made: seal(made[string]{value: "earlier", files: true}), all: seal([]string(nil))}
	v.reread(t.Context())
	v.reread(t.Context()) // it was a moment ago
	if v.get() != "earlier" || logs.Len() != 1 || !strings.Contains(logs.All()[0].ContextMap()["error"].(string), "a bug") {
		t.Errorf("%q, %v", v.get(), logs.All())
	}
}
