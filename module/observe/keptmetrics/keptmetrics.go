// Package keptmetrics has the metrics of what databases keep.
package keptmetrics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
)

// countEvery is how old the numbers of the databases may be.
const countEvery = 10 * time.Second

// Metrics of the databases.
var (
	keptDesc       = desc("kept_runs", "Runs in the databases, of all instances that use them.")
	openDesc       = desc("open_runs", "Runs in the databases that have not ended, by front and state.", "front", "state")
	deliveriesDesc = desc("deliveries_waiting", "Requests to URLs of callers that wait in the databases.")
	usableDesc     = desc("database_usable", "Whether the database can be used: 1, or 0.", "database")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_skill_bridge_"+name, help, labels, nil)
}

// Descs returns the descriptions of the metrics.
func Descs() []*prometheus.Desc {
	return []*prometheus.Desc{keptDesc, openDesc, deliveriesDesc, usableDesc}
}

// Metrics are the numbers of what the databases keep.
type Metrics struct {
	mu   sync.Mutex
	at   time.Time // when they were counted; zero: never
	of   []*store.DB
	last Figures
	read bool // a database could be read
}

// Send sends the numbers of some databases. If none can be read, it only says that.
func (k *Metrics) Send(databases []*store.DB, send func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) >= countEvery || !slices.Equal(k.of, databases) {
		now, unread := Of(context.Background(), databases)
		for of := range k.last.Open { // a series that was there stays
			now.Open[of] += 0
		}
		k.at, k.of, k.last, k.read = time.Now(), slices.Clone(databases), now, len(unread) < len(databases)
	}
	for _, db := range databases {
		status, usable := db.Status(), 0.
		if status.Open && status.Trouble == nil {
			usable = 1
		}
		send(usableDesc, prometheus.GaugeValue, usable, strings.ToValidUTF8(status.Place, "\uFFFD"))
	}
	if !k.read {
		return
	}
	send(keptDesc, prometheus.GaugeValue, float64(k.last.Kept))
	send(deliveriesDesc, prometheus.GaugeValue, float64(k.last.Waiting))
	for of, n := range k.last.Open {
		send(openDesc, prometheus.GaugeValue, float64(n), of.Front, of.State.String())
	}
}
