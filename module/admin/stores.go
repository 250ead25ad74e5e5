package admin

import (
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
)

// Store is a database that bridges use.
type Store struct {
	Bridges []int      `json:"bridges"`
	Kind    store.Kind `json:"kind"`
	// Place says which one it is: a file, or a host and the name of a database.
	Place string `json:"place"`
	// State is opening, open, read_only (it can be read, not written) or unusable.
	State string `json:"state"`
	// Error says why it can't be used, and Advice what to do.
	Error  string `json:"error,omitzero"`
	Advice string `json:"advice,omitzero"`
}

// stores returns the databases, in the order of the bridges.
func (adminAPI) stores(*http.Request) []Store {
	all, index := []Store{}, map[*store.DB]int{}
	for _, b := range observe.Numbered() {
		if b.Store == nil {
			continue
		}
		i, known := index[b.Store]
		if !known {
			i = len(all)
			index[b.Store] = i
			all = append(all, storeOf(b.Store.Status()))
		}
		all[i].Bridges = append(all[i].Bridges, b.Number)
	}
	return all
}

func storeOf(s store.Status) Store {
	shown := Store{Kind: s.Kind, Place: shownError(s.Place), State: "opening"}
	switch {
	case s.Trouble != nil:
		shown.Error, shown.Advice, shown.State = shownError(s.Trouble.Error()), s.Trouble.Advice, "unusable"
		if s.Trouble.Full {
			shown.State = "read_only"
		}
	case s.Open:
		shown.State = "open"
	}
	return shown
}
