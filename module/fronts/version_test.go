package fronts

import (
	"runtime/debug"
	"testing"
)

// TestVersion: the version of the bridge is that of its module, also if a program was built with a replacement of it.
func TestVersion(t *testing.T) {
	const path, none = "github.com/skill-bridge/caddy-skill-bridge", "v0.0.0-00010101000000-000000000000"
	for _, tc := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a release", debug.BuildInfo{Deps: []*debug.Module{{Path: "a", Version: "v2.0.0"}, {Path: path, Version: "v1.2.3"}}}, "v1.2.3"},
		{"a working tree", debug.BuildInfo{Deps: []*debug.Module{{Path: path, Version: none, Replace: &debug.Module{Path: "../.."}}}}, "(devel)"},
		{"another module", debug.BuildInfo{Deps: []*debug.Module{{Path: path, Version: none, Replace: &debug.Module{Path: "example.com/fork", Version: "v1.3.0"}}}}, "v1.3.0"},
		{"its own program", debug.BuildInfo{Main: debug.Module{Path: path, Version: "v1.2.4"}}, "v1.2.4"},
		{"its own program from a working tree", debug.BuildInfo{Main: debug.Module{Path: path}}, "(devel)"},
		{"its own program from a changed working tree", debug.BuildInfo{Main: debug.Module{Path: path, Version: none + "+dirty"}}, none + "+dirty"},
		{"a working tree in another program", debug.BuildInfo{Main: debug.Module{Path: "a"}, Deps: []*debug.Module{{Path: path, Replace: &debug.Module{Path: ".."}}}}, "(devel)"},
		{"another program", debug.BuildInfo{Main: debug.Module{Path: "a", Version: "v1.0.0"}}, "(devel)"},
	} {
		if version := versionIn(&tc.info); version != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, version, tc.want)
		}
	}
}
