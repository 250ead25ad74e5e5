package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/procfs"
)

// A following is a way for a client to follow a run that goes on.
type following struct {
	name, path string
	body       func(task string) string // of the request; task is the id of a task whose run goes on
	streams    bool                     // the answer is a stream of events
	starts     bool                     // the request starts a run
	ends       bool                     // the answer comes before the run has ended
	completed  string                   // part of the answer after the end of the run
}

const (
	completedTask = `"state":"TASK_STATE_COMPLETED"`
	// sendMessage is a request of A2A 1.0 that starts a run of skillHold, with a method and further members of its params.
	sendMessage = `{"jsonrpc":"2.0","id":1,"method":"%s","params":{"message":{"messageId":"m","role":"ROLE_USER",` +
		`"parts":[{"data":{"location":"Tokyo","days":5}}],"metadata":{"skillId":"bench.` + skillHold + `"}}%s}}`
)

var followings = []following{
	{
		name: "execute_skill that waits", path: bridgePath, starts: true, completed: `"status":"completed"`,
		body: func(string) string { return string(call(skillHold, bodies[0].size)) },
	},
	{
		name: "stream of a message (A2A), with its run", path: agentPath, streams: true, starts: true, completed: completedTask,
		body: func(string) string { return fmt.Sprintf(sendMessage, "SendStreamingMessage", "") },
	},
	{name: "run in the background (A2A)", path: agentPath, starts: true, ends: true, body: func(string) string { return inBackground }},
	{
		name: "stream that subscribes to one task (A2A)", path: agentPath, streams: true, completed: completedTask,
		body: func(task string) string { return aboutTask("SubscribeToTask", task) },
	},
}

// inBackground starts a run, and is answered at once.
var inBackground = fmt.Sprintf(sendMessage, "SendMessage", `,"configuration":{"returnImmediately":true}`)

func aboutTask(method, task string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"%s","params":{"id":"%s"}}`, method, task)
}

// measureStreams measures the memory of open streams beside that of calls that wait.
func measureStreams(b *bench) values {
	t := table{header: []string{"", "open", "resident memory of each, KB", "goroutines of each"}}
	files := must(must(procfs.Self()).Limits()).OpenFiles
	few := 0
	for _, h2 := range []bool{false, true} {
		n, version := either(b, 20, 5000), "HTTP/1.1"
		if h2 {
			version = "HTTP/2"
		} else if affordable := int(min(files-500, 1<<20)); n > affordable {
			n, few = affordable, affordable
		}
		for i := range followings {
			f := &followings[i]
			b.say("streams: %s, %d over %s", f.name, n, version)
			resident, goroutines := b.streamsOf(n, h2, f)
			t.add(f.name+", "+version, number(float64(n)), fmt.Sprintf("%.1f", resident/1000), fmt.Sprintf("%.2f", goroutines))
		}
	}
	return values{"table": t.String(), "files": files, "few": few}
}

// streamsOf follows runs n times in one way, and returns memory and goroutines of each.
func (b *bench) streamsOf(n int, h2 bool, f *following) (resident, goroutines float64) {
	arguments, version := []string{}, "1.1"
	if h2 {
		arguments, version = append(arguments, "-h2c"), "h2c"
	}
	u := b.startUpstream(arguments...)
	s := u.protocolsSite("site", "timeout 10m 10m", fmt.Sprintf("limits {\nruns %d %d\n}", n+100, n+100), "transport http {\nversions "+version+"\n}")
	s.lines = strings.Replace(s.lines, "\na2a\n", fmt.Sprintf("\na2a {\ntasks {\nkeep %d %d\n}\n}\n", 2*n+100, 2*n+100), 1)
	c := b.startCaddy(s)
	defer c.stop()
	defer u.stop()
	address := c.addresses["site"]
	b.warmUp(&target{name: "warming up", address: address, path: bridgePath, skill: skillNow})
	task := taskOf(must(once(http.MethodPost, address, agentPath, []byte(inBackground))))
	u.reached(b.ctx, 1)
	before, _ := b.settled(c, either(b, 100*time.Millisecond, time.Second))
	goroutinesBefore := c.goroutines()

	o := newOpenRequests(b.ctx, f, "http://"+address+f.path, f.body(task), n, h2)
	defer o.close()
	for i := range n {
		o.begin(i)
		if f.starts && i%64 == 63 || i == n-1 { // so that few requests are on their way
			u.reached(b.ctx, 1+startedBy(f, i+1))
		}
	}
	samples := make([]float64, either(b, 2, 20))
	for i := range samples {
		b.sleep(500 * time.Millisecond)
		samples[i] = c.residentMemory()
	}
	resident, goroutines = (median(samples)-before)/float64(n), float64(c.goroutines()-goroutinesBefore)/float64(n)
	u.release()
	check(o.wait())
	for _, text := range o.answers {
		b.complete(address, taskOf(text))
	}
	return resident, goroutines
}

// startedBy returns the number of runs that a number of requests start.
func startedBy(f *following, requests int) int {
	if !f.starts {
		return 0
	}
	return requests
}

// taskOf returns the id of the task in an answer to SendMessage.
func taskOf(text []byte) string {
	var answer struct {
		Result struct {
			Task struct {
				ID string `json:"id"`
			} `json:"task"`
		} `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result.Task.ID == "" {
		check(fmt.Errorf("an answer without a task: %.300s", text))
	}
	return answer.Result.Task.ID
}

// complete waits until a task is completed.
func (b *bench) complete(address, task string) {
	for deadline := time.Now().Add(2 * patience); ; b.sleep(10 * time.Millisecond) {
		text := string(must(once(http.MethodPost, address, agentPath, []byte(aboutTask("GetTask", task)))))
		switch {
		case strings.Contains(text, completedTask):
			return
		case time.Now().After(deadline):
			check(fmt.Errorf("a task is not completed: %.300s", text))
		}
	}
}

// openRequests are equal requests in progress.
type openRequests struct {
	following  *following
	url, body  string
	ctx        context.Context //nolint:containedctx // ends all requests
	cancel     context.CancelFunc
	transports []*http.Transport
	began      chan error // gets a value when an answer begins, and when a request ends
	errs       []error
	answers    [][]byte // of requests that are answered before the end of their run
	running    sync.WaitGroup
}

func newOpenRequests(ctx context.Context, f *following, url, body string, n int, h2 bool) *openRequests {
	const streams = 200 // on each connection of HTTP/2
	o := &openRequests{following: f, url: url, body: body, began: make(chan error, 2*n), errs: make([]error, n)}
	o.ctx, o.cancel = context.WithCancel(ctx)
	o.transports = make([]*http.Transport, (n+streams-1)/streams)
	for i := range o.transports {
		o.transports[i] = &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
		o.transports[i].Protocols.SetHTTP1(!h2)
		o.transports[i].Protocols.SetUnencryptedHTTP2(h2)
	}
	return o
}

// begin sends a request. If its answer comes before the end of the run, begin waits for the beginning of the answer.
func (o *openRequests) begin(i int) {
	o.running.Go(func() { o.errs[i] = o.send(o.transports[i*len(o.transports)/len(o.errs)]) })
	if o.following.streams || o.following.ends {
		check(<-o.began)
	}
}

// send sends a request, and reads its answer.
func (o *openRequests) send(transport *http.Transport) (err error) {
	defer func() { o.began <- err }()
	req, err := http.NewRequestWithContext(o.ctx, http.MethodPost, o.url, strings.NewReader(o.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2a-Version", "1.0")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r := bufio.NewReaderSize(resp.Body, 1<<10)
	if o.following.streams {
		if _, err := r.ReadSlice('\n'); err != nil { // of the first event
			return err
		}
		o.began <- nil
	}
	answer, err := io.ReadAll(r)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK || !strings.Contains(string(answer), o.following.completed):
		return fmt.Errorf("%s: HTTP %d %.300s", o.following.name, resp.StatusCode, answer)
	case o.following.ends:
		o.answers = append(o.answers, answer) // one request at a time
	}
	return nil
}

// wait waits for correct answers to all requests.
func (o *openRequests) wait() error {
	late := time.AfterFunc(4*patience, o.cancel)
	defer late.Stop()
	o.running.Wait()
	return firstOf(o.errs)
}

func (o *openRequests) close() {
	o.cancel()
	o.running.Wait()
	for _, transport := range o.transports {
		transport.CloseIdleConnections()
	}
}
