package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// output is the output of all runs except those of skillLaw.
const output = `{"location":"Tokyo","forecasts":[{"date":"2026-01-02","high":11,"low":4},{"date":"2026-01-03","high":9,"low":3,"condition":"sunny"}]}`

// nowAnswer is the answer for a run that completes at once, of typical size.
const nowAnswer = `{"execution_id":"exec-a1b2c3d4","status":"completed","skill_id":"bench/now",` +
	`"timestamps":{"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:08Z","completed_at":"2026-01-02T03:04:08Z"},"output":` + output + `}`

// The skills of the provider. Some names have a number at the end.
const (
	skillNow  = "now"  // completes at once
	skillPoll = "poll" // with a number: completes with this number of polls
	skillHold = "hold" // runs until /release
	skillLaw  = "law"  // with a number: takes an execution time of this law, divided by httpSpeed
	skillMany = "many" // with a number: like skillNow; a flag sets how many there are
)

// pollCounts are the numbers of the skills skillPoll.
var pollCounts = []int{1, 2, 4, 8}

// provider publishes skills and runs them, with little processor time.
type provider struct {
	origin string
	many   int

	index       []byte
	descriptors atomic.Int64
	runs        atomic.Uint64 // started runs
	held        atomic.Int64  // requests that wait for the release
	released    chan struct{}
	release     sync.Once

	// polls counts the polls of each run, up or down. The index is the number of the run modulo the
	// length; fewer runs are active at a time.
	polls [1 << 16]atomic.Int32

	drawing sync.Mutex
	random  *rand.Rand
}

// runUpstream runs a provider until the end of its standard input, so that it exits with its parent
// process. The first line of its output is its address.
func runUpstream(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	many := flags.Int("many", 0, "how many further skills to publish")
	h2c := flags.Bool("h2c", false, "understand HTTP/2 without TLS, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	p := newProvider("http://"+listener.Addr().String(), *many)
	if *h2c {
		go p.serveH2C(listener) //nolint:errcheck // runs until the process exits
	} else {
		go p.serve(listener)
	}
	if _, err := fmt.Fprintln(stdout, listener.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}

func newProvider(origin string, many int) *provider {
	p := &provider{origin: origin, many: many, released: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 2))} //nolint:gosec // no secret
	skills := make([]string, 0, 2+len(pollCounts)+len(httpLaws)+many)
	skills = append(skills, skillNow, skillHold)
	for _, n := range pollCounts {
		skills = append(skills, skillPoll+strconv.Itoa(n))
	}
	for _, n := range httpLaws {
		skills = append(skills, skillLaw+strconv.Itoa(n))
	}
	for n := range many {
		skills = append(skills, skillMany+strconv.Itoa(n))
	}
	entries := make([]string, len(skills))
	for i, s := range skills {
		entries[i] = fmt.Sprintf(`{"id":"bench/%[2]s","name":"Skill","capability_type":"api","description":"Does something.",`+
			`"descriptor_url":"%[1]s/skills/%[2]s","access":"public","version":"1.0.0"}`, origin, s)
	}
	p.index = []byte(`{"protocol":{"version":"1.0.0"},"provider":{"name":"Bench"},"skills":[` + strings.Join(entries, ",") + "]}")
	return p
}

// serve answers HTTP/1.1 requests.
func (p *provider) serve(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		go p.serveConnection(c)
	}
}

func (p *provider) serveConnection(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 16<<10)
	var body, answer []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		_, rest, _ := bytes.Cut(line, []byte(" "))
		path, _, ok := bytes.Cut(rest, []byte(" "))
		if !ok {
			return
		}
		target := string(path) // the next read overwrites the line
		length, err := wire.ReadHeader(r)
		if err != nil {
			return
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		var status int
		status, body = p.answer(body[:0], target)
		answer = append(answer[:0], "HTTP/1.1 "...)
		answer = strconv.AppendInt(answer, int64(status), 10)
		answer = append(answer, " \r\nContent-Type: application/json\r\nContent-Length: "...)
		answer = strconv.AppendInt(answer, int64(len(body)), 10)
		answer = append(answer, "\r\n\r\n"...)
		answer = append(answer, body...)
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// serveH2C answers HTTP/2 and HTTP/1.1 requests.
func (p *provider) serveH2C(listener net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}, ReadHeaderTimeout: wire.Patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			status, body := p.answer(nil, r.URL.Path)
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
			w.WriteHeader(status)
			_, _ = w.Write(body) //nolint:gosec // JSON, and no browser reads it
		}),
	}
	return server.Serve(listener)
}

// answer appends the body of the answer to a request.
func (p *provider) answer(to []byte, path string) (status int, body []byte) {
	switch {
	case strings.HasPrefix(path, "/run/"):
		return p.run(to, path[len("/run/"):])
	case strings.HasPrefix(path, "/status/"):
		return p.status(to, path[len("/status/"):])
	case path == "/hold":
		p.held.Add(1)
		<-p.released
		return http.StatusOK, append(to, nowAnswer...)
	case path == "/.well-known/skill-sharing":
		return http.StatusOK, append(to, p.index...)
	case strings.HasPrefix(path, "/skills/"):
		p.descriptors.Add(1)
		return http.StatusOK, fmt.Appendf(to, descriptor, p.origin, path[len("/skills/"):])
	case path == "/counts":
		return http.StatusOK, fmt.Appendf(to, `{"descriptors":%d,"runs":%d,"held":%d}`, p.descriptors.Load(), p.runs.Load(), p.held.Load())
	case path == "/release":
		p.release.Do(func() { close(p.released) })
		return http.StatusOK, to
	}
	return http.StatusNotFound, append(to, `{"error":{"code":"SKILL_NOT_FOUND","message":"There is nothing here."}}`...)
}

const descriptor = `{"protocol":{"version":"1.0.0"},"id":"bench/%[2]s","name":"Skill","version":"1.0.0","capability_type":"api",` +
	`"description":"Does something.","provider":{"name":"Bench"},` +
	`"endpoint":{"url":"%[1]s/run/%[2]s","method":"POST","status_url":"%[1]s/status/{execution_id}"},` +
	`"inputs":[{"name":"location","type":"string","description":"A city.","required":true},` +
	`{"name":"days","type":"number","description":"How many days to look ahead.","required":false,"schema":{"minimum":1,"maximum":14}}],` +
	`"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"public"}`

// run starts a run. Its id has its whole state, so that nothing is looked up: the kind, the number,
// and for skillLaw the times of its beginning and end.
func (p *provider) run(to []byte, skill string) (status int, body []byte) {
	kind := strings.TrimRight(skill, "0123456789")
	n, _ := strconv.Atoi(skill[len(kind):])
	if kind == skillNow || kind == skillMany {
		return http.StatusOK, append(to, nowAnswer...)
	}
	number := p.runs.Add(1)
	to = append(append(append(to, `{"execution_id":"`...), kind...), '-')
	to = strconv.AppendUint(to, number, 16)
	element := &p.polls[number%uint64(len(p.polls))]
	switch kind {
	case skillPoll:
		element.Store(int32(n)) //nolint:gosec // one of pollCounts
	case skillLaw:
		if !slices.Contains(httpLaws, n) {
			return http.StatusNotFound, to[:0]
		}
		element.Store(0)
		start := time.Now()
		end := start.Add(p.executionTime(n))
		to = strconv.AppendInt(append(to, '-'), start.UnixNano(), 16)
		to = strconv.AppendInt(append(to, '-'), end.UnixNano(), 16)
	}
	return http.StatusAccepted, append(to, `","status":"accepted"}`...)
}

func (p *provider) executionTime(n int) time.Duration {
	p.drawing.Lock()
	defer p.drawing.Unlock()
	return laws[n].drawTime(p.random, httpSpeed)
}

// status answers with the status of a run.
func (p *provider) status(to []byte, id string) (status int, body []byte) {
	head := func(state string) []byte {
		return append(append(append(append(to, `{"execution_id":"`...), id...), `","status":"`...), state...)
	}
	kind, number, times, err := parseID(id)
	if err != nil {
		return http.StatusNotFound, to
	}
	element := &p.polls[number%uint64(len(p.polls))]
	switch kind {
	case skillPoll:
		if element.Add(-1) <= 0 {
			return http.StatusOK, append(append(head("completed"), `","output":`+output...), '}')
		}
	case skillHold:
		select {
		case <-p.released:
			return http.StatusOK, append(append(head("completed"), `","output":`+output...), '}')
		default:
		}
	case skillLaw:
		polls := element.Add(1)
		if !time.Now().Before(times[1]) {
			return http.StatusOK, fmt.Appendf(head("completed"), `","timestamps":{"created_at":"%s","completed_at":"%s"},"output":{"ended":%d,"polls":%d}}`,
				times[0].UTC().Format(time.RFC3339Nano), times[1].UTC().Format(time.RFC3339Nano), times[1].UnixNano(), polls)
		}
	}
	return http.StatusOK, append(head("running"), `"}`...)
}

// parseID parses the id of a run.
func parseID(id string) (kind string, number uint64, times [2]time.Time, err error) {
	kind, rest, _ := strings.Cut(id, "-")
	text, rest, timed := strings.Cut(rest, "-")
	if number, err = strconv.ParseUint(text, 16, 64); err != nil || !timed {
		return kind, number, times, err
	}
	start, end, _ := strings.Cut(rest, "-")
	for i, text := range []string{start, end} {
		nanoseconds, errTime := strconv.ParseInt(text, 16, 64)
		err = errors.Join(err, errTime)
		times[i] = time.Unix(0, nanoseconds)
	}
	return kind, number, times, err
}
