package cli

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

const (
	// Longest is how long a run is followed at a time. The bridge's maximum has to be
	// as long.
	Longest = 24 * time.Hour
	// Usual is how long a run may take to be accepted where nobody says so. The
	// bridge's default has to be as long.
	Usual = 25 * time.Second
)

// Options are those of following a run.
type Options struct {
	Timeout time.Duration // 0: the skill's for the invocation, none for the end of the run
	JSON    bool          // shows the whole outcome instead of the output
}

// Call runs a skill and follows the run to its end.
func (p *Provider) Call(ctx context.Context, skill string, args Arguments, o Options) int {
	f := p.following(o)
	defer f.progress.end("")
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill, Timeout: f.Timeout})
	if failure != nil {
		return f.tell(ctx, run.Run{Failure: failure})
	}
	object, unknown, err := args.object(d.Descriptor.Inputs)
	if err != nil {
		return f.tell(ctx, run.Run{Ref: run.Ref{SkillID: d.Descriptor.ID}, Failure: unusable(d.Descriptor.ID, err)})
	}
	for _, name := range unknown {
		f.progress.line(fmt.Sprintf("note: the skill does not name an input %q", name))
	}
	// A run that is accepted is not waited for, so that its id can be shown.
	starting, cancel := context.WithTimeout(ctx, f.left()) // how long one waits is no business of the provider's
	defer cancel()
	outcome := p.Bridge.Execute(starting, translate.Call{Name: skill, Args: object, Timeout: f.longer(d.Descriptor), Wait: new(time.Duration)})
	if outcome.Failure == nil && !outcome.State.Ended() {
		f.progress.running("accepted " + outcome.ExecutionID)
		if f.pause(ctx, outcome.RetryAfter) {
			outcome = f.follow(ctx, outcome.Ref)
		}
	}
	return f.tell(ctx, outcome)
}

// Follow follows a run that was started before to its end.
func (p *Provider) Follow(ctx context.Context, skill, executionID string, o Options) int {
	f := p.following(o)
	defer f.progress.end("")
	d, failure := p.Bridge.Describe(ctx, translate.Call{Name: skill, Timeout: f.Timeout})
	if failure != nil {
		return f.tell(ctx, run.Run{Ref: run.Ref{SkillID: skill}, Failure: aboutRun(failure, skill, executionID)})
	}
	ref := run.Ref{Source: d.Namespace, SkillID: d.Descriptor.ID, Version: d.Descriptor.Version, ExecutionID: executionID}
	f.progress.running("following " + executionID)
	return f.tell(ctx, f.follow(ctx, ref))
}

// aboutRun makes of a failure to find a skill one to follow a run of it: whatever
// there is to be done, starting another run is not.
func aboutRun(failure *run.Failure, skill, executionID string) *run.Failure {
	about := *failure // which may be shared
	about.ExecutionID, about.Executed, about.SkillID = executionID, run.ExecutedYes, cmp.Or(about.SkillID, skill)
	return &about
}

// Unusable tells machines of arguments that no skill could want. People are told of
// them as of wrong usage.
func (s *Screen) Unusable(err error) {
	failure := unusable("", err)
	s.JSON(wholeOutcome{Status: "error", Error: newWholeError(failure, failure.Next())})
}

func unusable(skillID string, err error) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, Message: err.Error(), Phase: run.PhaseInvoke,
		By: run.Bridge, SkillID: skillID, Executed: run.ExecutedNo,
	}
}

// following is a command that follows a run.
type following struct {
	*Provider
	Options
	progress *progress
	start    time.Time
}

func (p *Provider) following(o Options) *following {
	return &following{p, o, newProgress(p.Screen), time.Now()}
}

// longer is the timeout of an invocation that may take longer than the skill's own;
// 0 if it may not.
func (f *following) longer(d *skillsharing.Descriptor) time.Duration {
	own := time.Duration(d.Endpoint.TimeoutMS * float64(time.Millisecond))
	if f.Timeout <= cmp.Or(own, Usual) {
		return 0
	}
	return f.left()
}

// left is how long may still be waited.
func (f *following) left() time.Duration {
	if f.Timeout == 0 {
		return Longest
	}
	return min(Longest, f.Timeout-time.Since(f.start))
}

// pause waits until the provider wants to be asked. It reports whether there is
// time for that.
func (f *following) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(min(d, f.left()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return f.left() > 0
	}
}

func (f *following) follow(ctx context.Context, ref run.Ref) run.Run {
	for {
		wait := f.left()
		o := f.Bridge.Follow(ctx, ref, translate.Call{Wait: &wait})
		if o.Failure != nil || o.State.Ended() || f.left() <= 0 {
			return o
		}
		if !f.pause(ctx, o.RetryAfter) {
			return o
		}
	}
}

// tell shows what became of a call and returns the exit status.
func (f *following) tell(ctx context.Context, o run.Run) int {
	elapsed := seconds(time.Since(f.start))
	status := ProtocolError
	if ctx.Err() == nil {
		o.Failure = late(o.Failure, f.waited())
	}
	failure := o.Failure
	switch {
	case failure == nil && o.State.Ended():
		f.progress.end("completed in " + elapsed)
		status = OK
	case failure != nil && failure.Kind == run.RunFailed:
		f.progress.end("")
		f.Screen.Complain("failed after %s: %s: %s", elapsed, skillsharing.CodeOf(failure), failure.Message)
		if details := skillsprotocol.Details(failure); details != nil {
			fmt.Fprintln(f.Screen.Err, "       details: "+printable(string(details)))
		}
		status = FailedRun
	case ctx.Err() != nil:
		f.progress.end("")
		f.interrupted(o)
		status = Interrupted
	case failure == nil:
		f.progress.end("")
		f.Screen.Complain("the run had not ended after %s", elapsed)
		f.Screen.Advise("it goes on; follow it: " + f.command("follow", o.SkillID, o.ExecutionID))
	default:
		f.progress.end("")
		f.explain(failure, f.advice(failure))
	}
	if o.State != 0 {
		f.Screen.ifLost = "the skill was executed: calling it again executes it again; if it has a status or result URL, this gets the result: " + f.command("follow", o.SkillID, o.ExecutionID)
	}
	switch {
	case f.JSON:
		f.Screen.JSON(f.whole(ctx, o))
	case status == OK:
		f.Screen.JSON(o.Output)
	}
	return status
}

// waited is how long was waited at most: what it took to notice that time was up is
// nobody's business.
func (f *following) waited() time.Duration {
	elapsed := time.Since(f.start)
	if f.Timeout > 0 {
		return min(elapsed, f.Timeout)
	}
	return elapsed
}

// advice says what to do about a failure. That a longer timeout helps is advice to
// call the skill again.
func (f *following) advice(failure *run.Failure) string {
	if isLate(failure) && f.Timeout > 0 && failure.Executed == run.ExecutedNo {
		return "nothing was executed; a longer --timeout gives it more time"
	}
	return f.next(failure)
}

// interrupted tells where to go on. The run itself does not end: the protocol has
// no way to cancel one.
func (f *following) interrupted(o run.Run) {
	switch {
	case o.State != 0:
		fmt.Fprintln(f.Screen.Err, "interrupted; the run goes on. Follow it with")
		fmt.Fprintln(f.Screen.Err, "  "+escaped(f.command("follow", o.SkillID, o.ExecutionID), ""))
	case o.Failure.Executed == run.ExecutedMaybe:
		fmt.Fprintln(f.Screen.Err, "interrupted before the provider answered; it is not known whether the skill was executed")
	default:
		fmt.Fprintln(f.Screen.Err, "interrupted; nothing was executed")
	}
}

// wholeOutcome is an outcome for machines.
type wholeOutcome struct {
	Status      string         `json:"status"` // a run's; "error" where none was accepted
	SkillID     string         `json:"skill_id,omitzero"`
	ExecutionID string         `json:"execution_id,omitzero"`
	ElapsedMS   int64          `json:"elapsed_ms"`
	Output      jsontext.Value `json:"output,omitzero"`
	Error       *wholeError    `json:"error,omitzero"`
	Follow      string         `json:"follow,omitzero"` // the command that goes on, where the run has not ended
}

func (f *following) whole(ctx context.Context, o run.Run) wholeOutcome {
	w := wholeOutcome{Status: "error", SkillID: o.SkillID, ElapsedMS: time.Since(f.start).Milliseconds()}
	if o.State != 0 {
		w.Status, w.ExecutionID, w.Output = o.State.String(), o.ExecutionID, o.Output
		if !o.State.Ended() && (o.Failure == nil || ctx.Err() != nil || o.Failure.Next() == run.NextFollowRun) {
			w.Follow = f.command("follow", o.SkillID, o.ExecutionID)
		}
	}
	if o.Failure != nil && (ctx.Err() == nil || o.State == 0 || o.State.Ended()) { // else it is that nobody waits
		w.Error = newWholeError(o.Failure, o.Failure.Next())
	}
	return w
}

// progress says how far a call is: on a terminal in one line that changes every
// second, elsewhere in a line for each thing that happened.
type progress struct {
	screen *Screen
	start  time.Time
	ended  chan struct{}
	ticks  sync.WaitGroup

	mu   sync.Mutex
	verb string
}

func newProgress(s *Screen) *progress {
	p := &progress{screen: s, start: time.Now(), ended: make(chan struct{}), verb: "invoking"}
	if s.ErrTerminal {
		p.ticks.Go(p.tick)
	}
	return p
}

// eraseLine goes to the beginning of the line and erases it (ECMA-48: CR, EL).
const eraseLine = "\r\x1b[K"

func (p *progress) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-ticker.C:
			p.mu.Lock()
			fmt.Fprintf(p.screen.Err, "%s%s %d s", eraseLine, p.verb, int(time.Since(p.start).Seconds()))
			p.mu.Unlock()
		}
	}
}

// line writes a line that stays.
func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen.ErrTerminal {
		fmt.Fprint(p.screen.Err, eraseLine)
	}
	fmt.Fprintln(p.screen.Err, printable(text))
}

// running tells that there is a run.
func (p *progress) running(text string) {
	p.line(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verb = "running"
}

// end stops the line that changes and leaves a last one, if there is a text. Only
// the first call counts.
func (p *progress) end(text string) {
	select {
	case <-p.ended:
		return
	default:
	}
	close(p.ended)
	p.ticks.Wait()
	switch {
	case text != "":
		p.line(text)
	case p.screen.ErrTerminal:
		fmt.Fprint(p.screen.Err, eraseLine)
	}
}
