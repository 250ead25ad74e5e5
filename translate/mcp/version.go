package mcp

import (
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// The versions of MCP.
const (
	version20260728 = "2026-07-28"
	version20251125 = "2025-11-25"
	version20250618 = "2025-06-18"
	version20250326 = "2025-03-26"
)

// AllVersions are the versions of MCP that can be served, the newest first.
func AllVersions() []string {
	return []string{version20260728, version20251125, version20250618, version20250326}
}

// isModern reports whether the requests of a version describe themselves.
func isModern(version string) bool { return version == version20260728 }

// The header fields of MCP over HTTP, in canonical form.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// saysModern reports whether a request is of a modern client. Some clients of legacy servers send Mcp-Method, too, but never
// without their version.
func (r *request) saysModern() bool {
	if r.meta.Version != nil {
		return true
	}
	if r.HTTP == nil || r.Method == methodInitialize { // which negotiates a legacy version, whatever the header says
		return false
	}
	said := r.HTTP.Header[headerVersion]
	if len(said) > 0 {
		return slices.ContainsFunc(said, func(v string) bool { return isModern(wire.Trim(v)) })
	}
	return len(r.HTTP.Header[headerMethod]) > 0
}

// legacyVersion returns the version of a legacy request. If the field is empty, or is there twice, it is none.
func (r *request) legacyVersion() string {
	if r.HTTP == nil || len(r.HTTP.Header[headerVersion]) == 0 {
		return version20250326
	}
	version, _ := wire.Field(r.HTTP.Header, headerVersion)
	return version
}

// newestLegacy is the version that initialize offers to clients that ask for one that is not served; empty: none is served.
func (o *Options) newestLegacy() string {
	for _, v := range AllVersions() {
		if !isModern(v) && o.serves(v) {
			return v
		}
	}
	return ""
}

func (o *Options) serves(version string) bool { return slices.Contains(o.Versions, version) }
