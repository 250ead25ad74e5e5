package a2a

import (
	"net/http"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

// VersionHeader is the header field, and the query parameter, with the version of A2A that a client uses (A2A 1.0, section 3.6).
const VersionHeader = "A2a-Version" // in the canonical form of package http

// Versions says which versions of A2A are served.
type Versions [wire.V10 + 1]bool

// AllVersions are all versions that the front knows.
var AllVersions = Versions{wire.V01: true, wire.V03: true, wire.V10: true}

// saidVersion returns the version that a request states, and its text; 0: it states none that is served.
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

// ParseVersion returns the version that a text means, without the patch number; 0: the front does not know it.
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

// generation is the set of methods that a method belongs to.
type generation uint8

const (
	methodsOf10 generation = iota // PascalCase
	methodsOf03                   // message/*, tasks/pushNotificationConfig/*, agent/*
	methodsOf01                   // tasks/send*, tasks/pushNotification/*
	shared                        // tasks/get, tasks/cancel and tasks/resubscribe, in 0.3 and 0.1
)

// dialectOf returns the version in which an error about a method is written, whether or not it is served: the client's, or else
// that of the method's name.
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

// dialect returns the version in which a method is served to a client that said a version, or none (0). It is 0 if the client's
// version has no such method. For shared methods of a client that did not say 0.1, it is 0.3: the task decides.
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
