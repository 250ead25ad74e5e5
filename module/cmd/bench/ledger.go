package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/databases"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// database is one of the kinds that are measured.
type database struct {
	name    string
	server  *databases.Postgres // nil: SQLite
	figures map[string][]string // by what was measured: the value and the goal
	order   []string
	made    int // files
}

func (d *database) add(what, value, goal string) {
	d.order = append(d.order, what)
	d.figures[what] = []string{value, goal}
}

// measureLedger measures what it costs to keep runs in a database.
func measureLedger(b *bench) values {
	kinds := []*database{{name: "SQLite", figures: map[string][]string{}}}
	if server := databases.StartPostgres(b.Starter); server != nil {
		kinds = append(kinds, &database{name: "PostgreSQL", server: server, figures: map[string][]string{}})
	} else {
		b.say("ledger: without PostgreSQL, which is not installed")
	}
	for _, d := range kinds {
		d.rows(b)
		d.shared(b)
		d.processor(b)
	}
	t := table{header: []string{"", "to reach"}}
	for _, d := range kinds {
		t.header = append(t.header, d.name)
	}
	last := kinds[len(kinds)-1] // has all figures
	for _, what := range last.order {
		row := append(make([]string, 0, len(t.header)), what, last.figures[what][1])
		for _, d := range kinds {
			row = append(row, append(d.figures[what], "")[0]) // empty: it was not measured
		}
		t.add(row...)
	}
	return values{"table": t.String(), "postgres": len(kinds) > 1}
}

// rows measures a database with many runs, without HTTP.
func (d *database) rows(b *bench) {
	r := databases.Rows{
		Starter: b.Starter, Server: d.server, Kept: either(b, 1000, 100_000), All: either(b, 2000, 1_000_000), Open: either(b, 20, 200), Repeat: either(b, 20, 400),
	}
	b.AtEnd(r.Close)
	b.say("ledger: %s, %s runs", d.name, number(float64(r.Kept)))
	kept, all := number(float64(r.Kept)), fmt.Sprintf("of %s runs, %d are open: ", number(float64(r.All)), r.Open)
	f := r.MeasureKept()
	d.add("size of "+kept+" kept runs, MB", megabytes(f.Size), "≤ 200")
	d.add("list_runs of one owner of them, ms", milliseconds(f.List), "≤ 2")
	d.add("expiry of "+kept+" runs, processor time of the bridge, s", fmt.Sprintf("%.2f", f.Processor), "≤ 2")
	b.say("ledger: %s, %s runs", d.name, number(float64(r.All)))
	o := r.MeasureOpen()
	d.add(all+"adoption of 50, ms", milliseconds(o.Adoption), "≤ 5")
	d.add(all+"a look for runs to adopt, when there are none, ms", milliseconds(o.NoAdoption), "≤ 0.3")
	d.add(all+"a look for what has expired, when nothing has, ms", milliseconds(o.NoExpiry), "≤ 0.3")
	r.Close()
}

// milliseconds formats seconds.
func milliseconds(seconds float64) string { return fmt.Sprintf("%.2f", seconds*1e3) }

// options returns the options of a bridge that keeps runs in a new database. The server may be behind a proxy.
func (d *database) options(b *bench, address string) []string {
	if d.server == nil {
		d.made++
		return keeping("sqlite " + filepath.Join(b.Dir, "ledger-"+strconv.Itoa(d.made)+".db"))
	}
	return keeping("postgres " + d.server.Create(address))
}

func keeping(where string) []string {
	return []string{"store " + where, "name bench", "principal {http.request.header.User}"}
}

// keyed returns a request with a key of its own.
func keyed(address, path string, body []byte, key string) []byte {
	head := "\r\nUser: ann\r\n"
	if key != "" {
		head += `Idempotency-Key: "` + key + "\"\r\n"
	}
	return bytes.Replace(wire.Request(http.MethodPost, address, path, body), []byte("\r\n"), []byte(head), 1)
}

// byTheClock are parts of statements that each instance executes by its clock: leases and adoption, notices, expiry, deliveries that are due, looks at
// what it waits for, and counts of what owners have.
var byTheClock = []string{"instances", "pg_notify", "LISTEN", "ORDER BY expires", "claimed = TRUE", "min(since)", "WITH k (r, o, i, v)", "sum(size)"}

// isOfCall reports whether a statement is executed for a call.
func isOfCall(text string) bool {
	return !slices.ContainsFunc(byTheClock, func(part string) bool { return strings.Contains(text, part) })
}

// shared measures statements, and when an instance hears of an end at another one.
func (d *database) shared(b *bench) {
	b.say("ledger: %s, two instances", d.name)
	address, statements := "", (*wire.Statements)(nil)
	if d.server != nil {
		statements = must(wire.CountStatements(d.server.Address, isOfCall))
		defer statements.Close()
		address = statements.Address()
	}
	u := b.StartUpstream()
	defer u.Stop()
	options := d.options(b, address)
	sites := [2]*servers.Caddy{}
	for i := range sites {
		s := u.ProtocolsSite(append(options, "poll_interval 20ms 20ms")...)
		s.Lines = strings.Replace(s.Lines, "store memory\n", "", 1)
		sites[i] = b.StartCaddy(s)
		defer sites[i].Stop()
	}
	at := [2]string{sites[0].Addresses["site"], sites[1].Addresses["site"]}
	if statements != nil {
		for _, c := range []struct {
			name, path, goal string
			keyed            bool
			body             []byte
		}{
			{"statements of a call without a key", servers.BridgePath, "0", false, call(provider.Now, bodies[0].size)},
			{"statements of a call with a key that ends at once", servers.BridgePath, "2", true, call(provider.Now, bodies[0].size)},
			{"statements of a call with a key whose run is accepted", servers.BridgePath, "3", true, call(provider.Poll+"1", bodies[0].size)},
			{"statements of list_runs", servers.BridgePath, "1", false, []byte(`{"jsonrpc":"2.0","id":1,"method":"list_runs","params":{}}`)},
			{"statements of SendMessage that ends at once", servers.AgentPath, "1", false, message(provider.Now)},
		} {
			d.add(c.name, fmt.Sprintf("%.0f", d.statements(b, statements, at[0], c.path, c.body, c.keyed)), c.goal)
		}
	}
	late := d.heard(b, at)
	slices.Sort(late)
	d.add("an end at one instance reaches another one after, ms, the slowest of "+strconv.Itoa(len(late)), milliseconds(late[len(late)-1]), "≤ 200; SQLite: ≤ 1,000")
}

// statements returns the number of statements of a request, the median.
func (d *database) statements(b *bench, s *wire.Statements, address, path string, body []byte, withKey bool) float64 {
	c := must(wire.Dial(address))
	defer c.Close()
	key := ""
	counts := make([]float64, either(b, 3, 20))
	for i := range counts {
		if withKey {
			key = fmt.Sprint("count-", i, "-", len(body))
		}
		before := s.Count()
		check(c.SetDeadline(time.Now().Add(wire.Patience)))
		if answer := must(c.Do(keyed(address, path, body, key))); bytes.Contains(answer, []byte(`"error":`)) {
			check(fmt.Errorf("a wrong answer: %.300s", answer))
		}
		b.sleep(20 * time.Millisecond) // some write after their answers
		counts[i] = float64(s.Count() - before)
	}
	return statistics.Median(counts)
}

// heard returns how much later than an instance that follows a run another one tells its end, in seconds.
func (d *database) heard(b *bench, at [2]string) []float64 {
	late := make([]float64, either(b, 3, 40))
	for i := range late {
		var arrived [2]time.Time
		var errs [2]error
		var calls sync.WaitGroup
		for k, address := range at {
			calls.Go(func() {
				c, err := wire.Dial(address)
				if errs[k] = err; err != nil {
					return
				}
				defer c.Close()
				errs[k] = c.SetDeadline(time.Now().Add(wire.Patience))
				answer, err := c.Do(keyed(address, servers.BridgePath, call(provider.Wait+"300", bodies[0].size), fmt.Sprint("heard-", d.name, i)))
				if arrived[k] = time.Now(); err == nil && !bytes.Contains(answer, []byte(`"status":"completed"`)) {
					err = fmt.Errorf("a wrong answer: %.300s", answer)
				}
				errs[k] = errors.Join(errs[k], err)
			})
			b.sleep(100 * time.Millisecond) // the first one claims
		}
		calls.Wait()
		check(firstOf(errs[:]))
		late[i] = max(0, arrived[1].Sub(arrived[0]).Seconds())
	}
	return late
}

// processor compares processor times of calls that complete at once. Each kind has a process of its own.
func (d *database) processor(b *bench) {
	b.say("ledger: %s, processor time", d.name)
	u := b.StartUpstream()
	defer u.Stop()
	calls := []struct {
		name, path string
		keyed      bool
	}{{"execute_skill", servers.BridgePath, false}, {"execute_skill with a key", servers.BridgePath, true}, {"SendMessage", servers.AgentPath, false}}
	loads := make([]*load, 0, len(calls))
	for _, kind := range calls {
		address := ""
		if d.server != nil {
			address = d.server.Address
		}
		s := u.ProtocolsSite(append(d.options(b, address), "keep 24h 10000000 10000000")...)
		s.Lines = strings.Replace(s.Lines, "store memory\n", "", 1)
		c := b.StartCaddy(s)
		defer c.Stop()
		t := &target{kind.name, c.Addresses["site"], kind.path, provider.Now, []int{c.Pid()}}
		body := call(provider.Now, bodies[0].size)
		if kind.path == servers.AgentPath {
			body = message(provider.Now)
		}
		const first = "key-000000000000"
		request := keyed(t.address, t.path, body, first)
		if !kind.keyed {
			request = keyed(t.address, t.path, body, "")
		}
		l := must(newLoad(t, request, t.check, 1)) // which checks that there is an answer
		l.close()
		l = &load{target: t, request: request, accept: t.check}
		if kind.keyed {
			var n atomic.Int64
			at := bytes.Index(request, []byte(first))
			l.fresh = func() []byte {
				own := bytes.Clone(request)
				copy(own[at:], fmt.Sprintf("key-%012d", n.Add(1)))
				return own
			}
		}
		for range 32 {
			l.connections = append(l.connections, must(wire.Dial(t.address)))
		}
		defer l.close()
		loads = append(loads, l)
	}
	b.compare(loads, b.slice())
	for i, goal := range []string{"", "SQLite: ≤ 2.4", "SQLite: ≤ 1.8"} {
		cost := fmt.Sprintf("%.0f", loads[i].all().cost()*1e6)
		if i == 0 {
			d.add("processor time of execute_skill, µs", cost, "")
			continue
		}
		d.add("processor time of "+loads[i].name+", ratio to that", b.ratio(loads[i], loads[0], slice.cost).Format("%.2f"), goal)
	}
}
