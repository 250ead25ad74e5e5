package fronts

import (
	"cmp"
	"runtime/debug"
	"sync"

	"github.com/caddyserver/caddy/v2"
)

// ModuleVersion returns the version of the bridge.
var ModuleVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionIn(info)
	}
	return unreleased
})

// unreleased is the version of a bridge that was built from a working tree.
const unreleased = "(devel)"

// shownRevision is how many characters of a revision a version has.
const shownRevision = 12

// versionIn returns the version of the bridge in a program: that of the module, or of another one that replaces it. A working tree has none,
// but the revision that is known of the program's own.
func versionIn(info *debug.BuildInfo) string {
	const path = "github.com/skill-bridge/caddy-skill-bridge"
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		version := cmp.Or(m.Version, unreleased)
		if m == &info.Main && version == unreleased {
			version += revisionIn(info)
		}
		return version
	}
	return unreleased
}

// revisionIn returns the revision of the working tree that a program was built from; empty: it is not known.
func revisionIn(info *debug.BuildInfo) (revision string) {
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = " " + s.Value[:min(len(s.Value), shownRevision)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + modified
}

// CaddyVersion returns the version of Caddy.
var CaddyVersion = sync.OnceValue(func() string {
	version, _ := caddy.Version()
	return version
})
