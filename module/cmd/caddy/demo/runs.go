package demo

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
)

const (
	maxRuns   = 1000
	maxMemory = 64 << 20         // bytes of all inputs and outputs held
	maxOutput = 1 << 20          // bytes of one output
	keepEnded = 10 * time.Minute // how long a run can be asked for after it ended
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

// A run is one execution of a skill. What changes of it, its report and its
// weight, changes under the lock of the runs it is in.
type run struct {
	skill   *skill
	owner   string // empty where the skill is public
	timeout time.Duration
	report  report
	weight  int // bytes held
}

// runs holds the executions of one configuration in bounded memory.
type runs struct {
	stopping chan struct{}
	follows  sync.WaitGroup

	mu      sync.Mutex
	byID    map[string]*run
	ended   []*run // in the order in which they ended
	weight  int
	stopped bool
}

var (
	errFull    = errors.New("too many runs at once")
	errStopped = errors.New("the provider has been stopped")
)

func newRuns() *runs {
	return &runs{stopping: make(chan struct{}), byID: make(map[string]*run)}
}

// start begins a run and returns its first report: the final one if the skill
// is immediate. A slower run goes on by itself. The size is that of the
// inputs in bytes. The errors are errFull and errStopped.
func (rs *runs) start(s *skill, owner string, in invocation, size int) (report, error) {
	now := timestamp()
	r := &run{skill: s, owner: owner, timeout: in.timeout, weight: size, report: report{
		ExecutionID: "exec-" + strings.ToLower(rand.Text()),
		Status:      accepted,
		SkillID:     s.id(),
		Timestamps:  timestamps{CreatedAt: now, UpdatedAt: now},
	}}
	first, err := rs.add(r, in.arguments)
	if err != nil || s.duration > 0 {
		return first, err
	}
	return rs.perform(r, in.arguments), nil
}

// add makes room for a run, at the cost of those that ended first, and lets
// it go unless it is immediate.
func (rs *runs) add(r *run, args arguments) (report, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.stopped {
		return report{}, errStopped
	}
	rs.expire()
	for len(rs.ended) > 0 && (len(rs.byID) >= maxRuns || rs.weight+r.weight > maxMemory) {
		rs.dropOldest()
	}
	if len(rs.byID) >= maxRuns || rs.weight+r.weight > maxMemory {
		return report{}, errFull
	}
	rs.byID[r.report.ExecutionID] = r
	rs.weight += r.weight
	if r.skill.duration > 0 {
		rs.follows.Go(func() { rs.follow(r, args) })
	}
	return r.report, nil
}

// follow takes an accepted run to its end: a quarter of its time it waits to
// be started, the rest it runs.
func (rs *runs) follow(r *run, args arguments) {
	var deadline <-chan time.Time
	if r.timeout > 0 {
		timer := time.NewTimer(r.timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	queued := r.skill.duration / 4
	if !rs.pause(r, queued, deadline) {
		return
	}
	rs.enter(r)
	if !rs.pause(r, r.skill.duration-queued, deadline) {
		return
	}
	rs.perform(r, args)
}

// pause waits. It reports false if the run has ended meanwhile, because its
// caller's timeout passed or the provider stops.
func (rs *runs) pause(r *run, d time.Duration, deadline <-chan time.Time) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-deadline:
		ms := r.timeout.Milliseconds()
		rs.end(r, timedOut, nil, &runError{
			Code:    codeTimeout,
			Message: "Skill execution timed out after " + strconv.FormatInt(ms, 10) + "ms",
			Details: map[string]any{"timeout_ms": ms, "execution_id": r.report.ExecutionID},
			Retry:   &retry{SuggestedDelayMS: 1000, MaxAttempts: 3},
		})
	case <-rs.stopping:
		rs.end(r, failed, nil, &runError{Code: "PROVIDER_STOPPED", Message: "The provider stopped before the run had ended"})
	}
	return false
}

func (rs *runs) enter(r *run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.report.Status = running
	r.report.Timestamps.UpdatedAt = timestamp()
}

// perform does the work and ends the run with what came of it.
func (rs *runs) perform(r *run, args arguments) report {
	out, failure := rs.try(r, args)
	if failure != nil {
		return rs.end(r, failed, nil, failure)
	}
	return rs.end(r, completed, out, nil)
}

func (rs *runs) try(r *run, args arguments) (out jsontext.Value, failure *runError) {
	// The work of an asynchronous run has a goroutine of its own: a library
	// that panics there, on an input nobody foresaw, would end the process.
	defer func() {
		if cause := recover(); cause != nil {
			logger().Error("skill panicked", zap.String("skill", r.skill.id()), zap.Any("cause", cause), zap.Stack("stack"))
			failure = &runError{Code: "EXECUTION_FAILED", Message: "The skill cannot process this input"}
		}
	}()
	result, failure := r.skill.work(args)
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
		Details: map[string]int{"max_bytes": maxOutput},
	}
}

func (rs *runs) end(r *run, s status, out jsontext.Value, failure *runError) report {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := timestamp()
	r.report.Status, r.report.Output, r.report.Error = s, out, failure
	r.report.Timestamps.UpdatedAt, r.report.Timestamps.CompletedAt = now, now

	rs.weight += len(out) - r.weight // the inputs are no longer held
	r.weight = len(out)
	rs.ended = append(rs.ended, r)
	for rs.weight > maxMemory && len(rs.ended) > 1 {
		rs.dropOldest()
	}
	logger().Debug("run ended",
		zap.String("skill", r.report.SkillID),
		zap.String("execution_id", r.report.ExecutionID),
		zap.String("status", string(s)))
	return r.report
}

// find returns a copy of the run with this id.
func (rs *runs) find(id string) (run, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expire()
	r, ok := rs.byID[id]
	if !ok {
		return run{}, false
	}
	return *r, true
}

// counts returns how many runs are held, by status.
func (rs *runs) counts() map[string]int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expire()
	counts := make(map[string]int)
	for _, r := range rs.byID {
		counts[string(r.report.Status)]++
	}
	return counts
}

func (rs *runs) expire() {
	limit := time.Now().Add(-keepEnded)
	for len(rs.ended) > 0 && rs.ended[0].report.Timestamps.CompletedAt.Before(limit) {
		rs.dropOldest()
	}
}

func (rs *runs) dropOldest() {
	r := rs.ended[0]
	rs.ended[0] = nil // the array behind the slice outlives the run
	rs.ended = rs.ended[1:]
	rs.weight -= r.weight
	delete(rs.byID, r.report.ExecutionID)
}

// stop ends what still runs and waits for it. It may be called again.
func (rs *runs) stop() {
	rs.mu.Lock()
	if !rs.stopped {
		rs.stopped = true
		close(rs.stopping)
	}
	rs.mu.Unlock()
	rs.follows.Wait()
}

func timestamp() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
