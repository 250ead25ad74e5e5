package a2a

import (
	"net/http"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

// VersionHeader is the name of the header field and of the query parameter with the client's version of A2A (A2A 1.0, section 3.6).
const VersionHeader = "A2a-Version" // in the canonical form of package http

// Versions is the set of versions of A2A that are served.
type Versions [wire.V10 + 1]bool

// AllVersions are all versions that the front supports.
var AllVersions = Versions{wire.V01: true, wire.V03: true, wire.V10: true}

// saidVersion returns the version that a request states, and its text; 0: the request states none, or one that the front does not support.
func saidVersion(r *http.Request) (v wire.Version, text string) {
	if r == nil {
		return 0, ""
	}
	text = strings.TrimSpace(r.Header.Get(VersionHeader))
	if text == "" && r.URL != nil && r.URL.RawQuery != "" {
		text = strings.TrimSpace(r.URL.Query().Get("A2A-Version"))
	}
	return ParseVersion(text), text
}

// ParseVersion returns the version that a text means, without the patch number; 0: the front does not support it.
func ParseVersion(text string) wire.Version {
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch major + "." + minor {
	case "1.0":
		return wire.V10
	case "0.3", "0.2":
		return wire.V03
	case "0.1":
		return wire.V01
	}
	return 0
}

// generation is a set of methods that belong to the same versions.
type generation uint8

const (
	methodsOf10 generation = iota // PascalCase
	methodsOf03                   // message/*, tasks/pushNotificationConfig/*, agent/*
	methodsOf01                   // tasks/send*, tasks/pushNotification/*
	shared                        // tasks/get, tasks/cancel and tasks/resubscribe, in 0.3 and 0.1
)

// dialectOf returns the version whose form an error about a method has, whether or not the method is served: the version that the
// client states, or else that of the method's name.
func dialectOf(said wire.Version, m *method, name string) wire.Version {
	if m != nil {
		if v := m.generation.dialect(said); v != 0 {
			return v
		}
	}
	switch {
	case said != 0:
		return said
	case strings.Contains(name, "/"):
		return wire.V03
	}
	return wire.V10
}

// dialect returns the version in which a method is served to a client. said is the version that the client states; 0: none. The
// result is 0 if that version has no such method. For the shared methods it is 0.3, unless the client states 0.1; query later
// replaces it by the version of the task.
func (g generation) dialect(said wire.Version) wire.Version {
	switch {
	case said == wire.V10 && g != methodsOf10:
		return 0
	case said == wire.V01:
		if g == methodsOf01 || g == shared {
			return wire.V01
		}
		return 0
	case g == methodsOf10:
		return wire.V10
	case g == methodsOf01:
		return wire.V01
	}
	return wire.V03
}
