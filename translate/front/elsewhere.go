package front

import (
	"net/http"
	"slices"
	"strings"
)

// Elsewhere knows the protocols of all fronts of a handler, so that a client that has the URL of another one learns the right one.
type Elsewhere struct {
	// Protocols are those of all fronts.
	Protocols []Protocol
	// Base returns the path that the client of a request has to write before those of the protocols. Nil: there is none.
	Base func(r *http.Request) string
}

// Protocol is a protocol with a front.
type Protocol struct {
	Name    string // of the front in reports
	Title   string
	Methods []string
	Path    string // of the endpoint; empty: the handler does not serve the protocol
}

// Place says to which protocols a method belongs, and where they are served.
type Place struct {
	Text     string // a sentence that begins with the method
	Protocol string // the name of the first one that is served, or else of the first one
	Endpoint string // its path; empty: it is not served
}

// Of returns to which other protocols a method belongs that the front of a protocol does not serve; nil: to none, or to that protocol, too.
func (e *Elsewhere) Of(r *http.Request, own, method string) *Place {
	if e == nil {
		return nil
	}
	var place *Place
	for _, p := range e.Protocols {
		if !slices.Contains(p.Methods, method) {
			continue
		}
		if p.Name == own {
			return nil
		}
		if p.Path == "" {
			if place == nil {
				place = &Place{Text: method + " is a method of " + p.Title + ", which is not offered here", Protocol: p.Name}
			}
			continue
		}
		path := p.Path
		if e.Base != nil && r != nil {
			path = strings.TrimSuffix(e.Base(r), "/") + path
		}
		if place != nil && place.Endpoint != "" {
			place.Text += ", and of " + p.Title + ", which is at " + path
			continue
		}
		place = &Place{Text: method + " is a method of " + p.Title + ", which is at " + path, Protocol: p.Name, Endpoint: path}
	}
	return place
}

// Place adds what an error says about the method of another protocol; nil: it is none.
func (w *Writer) Place(p *Place) {
	if p != nil {
		w.Text("protocol", p.Protocol)
		w.Optional("endpoint", p.Endpoint)
	}
}
