package demo

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
)

const (
	maxRuns   = 1000
	maxMemory = 64 << 20         // bytes of all inputs and outputs in memory
	maxOutput = 1 << 20          // bytes of one output
	keepEnded = 10 * time.Minute // how long an ended run is kept

	waitUnread = 3 * time.Second       // how long the exit of the process waits for a client to read the end of a run; Retry-After is a second
	lookUnread = 20 * time.Millisecond // how often it looks whether a client has
)

// A status is an ExecutionStatus (section 3.4.4).
type status string

const (
	accepted  status = "accepted"
	running   status = "running"
	completed status = "completed"
	failed    status = "failed"
	timedOut  status = "timeout"
)

func (s status) final() bool { return s != accepted && s != running }

// A report is an InvocationResponse (section 5.4).
type report struct {
	ExecutionID string         `json:"execution_id"`
	Status      status         `json:"status"`
	SkillID     string         `json:"skill_id"`
	Output      jsontext.Value `json:"output,omitzero"`
	Error       *runError      `json:"error,omitzero"`
	Timestamps  timestamps     `json:"timestamps"`
}

type timestamps struct {
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
}

// A run is one execution of a skill. The lock of runs guards its report and weight.
type run struct {
	skill  *skill
	report report
	weight int  // bytes in memory
	read   bool // a client knows its end
}

// runs holds the runs of a provider in bounded memory.
type runs struct {
	ctx     context.Context // ends with the provider
	stop    context.CancelFunc
	follows sync.WaitGroup

	mu     sync.Mutex
	byID   map[string]*run
	ended  []*run // in the order of their ends
	weight int
}

func newRuns() *runs {
	rs := &runs{byID: make(map[string]*run)}
	rs.ctx, rs.stop = context.WithCancel(context.Background())
	return rs
}

// Destruct implements caddy.Destructor. It cancels unfinished runs and waits for them.
func (rs *runs) Destruct() error {
	rs.mu.Lock() // so that no run is added meanwhile
	rs.stop()
	rs.mu.Unlock()
	rs.follows.Wait()
	return nil
}

// start starts a run and returns its first report, which is the final one if takes is 0. The size is
// that of the inputs in bytes. It reports false if the memory is full.
func (rs *runs) start(s *skill, takes time.Duration, in invocation, size int) (first report, ok bool) {
	now := timestamp()
	r := &run{skill: s, weight: size, report: report{
		ExecutionID: "exec-" + strings.ToLower(rand.Text()),
		Status:      accepted,
		SkillID:     s.descriptor.ID,
		Timestamps:  timestamps{CreatedAt: now, UpdatedAt: now},
	}}
	first = r.report
	rs.mu.Lock()
	ok = rs.ctx.Err() == nil && rs.makeRoom(1, size)
	if ok {
		rs.byID[first.ExecutionID] = r
		rs.weight += size
		if takes > 0 {
			rs.follows.Go(func() { rs.follow(r, takes, in) })
		}
	}
	rs.mu.Unlock()
	if ok && takes == 0 {
		first = rs.perform(r, in.arguments)
	}
	return first, ok
}

// drain waits until each run has ended, and a client has read its end or has not asked for it in waitUnread.
func (rs *runs) drain() {
	for rs.unread() {
		sleep(rs.ctx, lookUnread)
	}
}

// unread reports whether a client may still ask for the end of a run that it does not know.
func (rs *runs) unread() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		if !r.read && (!r.report.Status.final() || time.Since(r.report.Timestamps.CompletedAt) < waitUnread) {
			return rs.ctx.Err() == nil
		}
	}
	return false
}

// noteRead notes that a client knows the end of a run.
func (rs *runs) noteRead(id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byID[id]; r != nil {
		r.read = true
	}
}

// makeRoom removes runs that ended too long ago, and further ended runs, oldest first, until there is
// room for more runs and bytes.
func (rs *runs) makeRoom(more, bytes int) bool {
	limit := time.Now().Add(-keepEnded)
	for {
		full := len(rs.byID)+more > maxRuns || rs.weight+bytes > maxMemory
		if len(rs.ended) == 0 || !full && !rs.ended[0].report.Timestamps.CompletedAt.Before(limit) {
			return !full
		}
		oldest := rs.ended[0]
		rs.ended[0] = nil // for the garbage collector
		rs.ended = rs.ended[1:]
		rs.weight -= oldest.weight
		delete(rs.byID, oldest.report.ExecutionID)
	}
}

// follow executes an accepted run. Its state is accepted for a quarter of the time, then running.
func (rs *runs) follow(r *run, takes time.Duration, in invocation) {
	ctx := rs.ctx
	if in.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.timeout)
		defer cancel()
	}
	queued := takes / 4
	if sleep(ctx, queued) {
		rs.update(r, running, nil, nil)
		if sleep(ctx, takes-queued) {
			rs.perform(r, in.arguments)
			return
		}
	}
	if rs.ctx.Err() != nil {
		rs.update(r, failed, nil, &runError{Code: "PROVIDER_STOPPED", Message: "The provider stopped before the run had ended"})
		return
	}
	ms := in.timeout.Milliseconds()
	rs.update(r, timedOut, nil, &runError{
		Code:    codeTimeout,
		Message: "Skill execution timed out after " + strconv.FormatInt(ms, 10) + "ms",
		Details: object{"timeout_ms": ms, "execution_id": r.report.ExecutionID},
		Retry:   &retry{SuggestedDelayMS: 1000, MaxAttempts: 3},
	})
}

// sleep waits. It reports false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// perform does the work of a run and records its outcome.
func (rs *runs) perform(r *run, args arguments) report {
	out, failure := r.skill.try(args)
	if failure != nil {
		return rs.update(r, failed, nil, failure)
	}
	return rs.update(r, completed, out, nil)
}

func (s *skill) try(args arguments) (out jsontext.Value, failure *runError) {
	// An asynchronous run has its own goroutine, where a panic in a library would end the process.
	defer func() {
		if cause := recover(); cause != nil {
			logger().Error("skill panicked", zap.String("skill", s.descriptor.ID), zap.Any("cause", cause), zap.Stack("stack"))
			failure = &runError{Code: "EXECUTION_FAILED", Message: "The skill cannot process this input"}
		}
	}()
	result, failure := s.work(args)
	if failure != nil {
		return nil, failure
	}
	out, err := json.Marshal(result, json.Deterministic(true))
	if err != nil {
		return nil, &runError{Code: "EXECUTION_FAILED", Message: "The output is not valid JSON: " + err.Error()}
	}
	if len(out) > maxOutput {
		return nil, outputTooLarge()
	}
	return out, nil
}

func outputTooLarge() *runError {
	return &runError{
		Code:    "OUTPUT_TOO_LARGE",
		Message: "The output would be larger than 1 MiB",
		Details: object{"max_bytes": maxOutput},
	}
}

// update records a new state of a run.
func (rs *runs) update(r *run, s status, out jsontext.Value, failure *runError) report {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := timestamp()
	r.report.Status, r.report.Output, r.report.Error = s, out, failure
	r.report.Timestamps.UpdatedAt = now
	if !s.final() {
		return r.report
	}
	r.report.Timestamps.CompletedAt = now
	rs.weight += len(out) - r.weight // the inputs are no longer in memory
	r.weight = len(out)
	rs.ended = append(rs.ended, r)
	rs.makeRoom(0, 0)
	logger().Debug("run ended",
		zap.String("skill", r.report.SkillID),
		zap.String("execution_id", r.report.ExecutionID),
		zap.String("status", string(s)))
	return r.report
}

// find returns the skill and the report of a run.
func (rs *runs) find(id string) (*skill, report, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.makeRoom(0, 0)
	r, ok := rs.byID[id]
	if !ok {
		return nil, report{}, false
	}
	return r.skill, r.report, true
}

// logger returns the logger of the current configuration. A run may outlive the configuration that it
// was started with.
func logger() *zap.Logger { return caddy.Log().Named("http.handlers.skill_bridge_demo") }

func timestamp() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
