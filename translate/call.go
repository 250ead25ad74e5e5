package translate

import (
	"bytes"
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Call asks the bridge to execute, describe or follow something, in no front's words.
type Call struct {
	run.Caller

	// Name is the skill's name as the agent wrote it; [catalog.Catalog.Resolve] says how it is resolved.
	Name string
	// Inputs are sent to the provider as they are; no text is an empty object. [Bridge.Start] does not keep them.
	Inputs jsonrpc.Object
	// Checks bounds the cost of checking inputs, for all calls of one request; nil: for this call alone.
	Checks *inputs.Checks
	// Answer bounds the memory of the answer; calls may share it. nil: there is no bound.
	Answer exchange.AnswerBudget
	// Version is the version that the skill must have; empty: any.
	Version string
	// Priority is the one that the agent asked for, as it wrote it; empty: it asked for none.
	Priority string
	// Timeout is the one that the agent asked for; 0: it asked for none.
	Timeout time.Duration
	// Wait is how long the agent waits for the end of an accepted run, from the call's arrival, within the timeout. A run
	// that has not ended by then is the answer, and no failure. nil: until the timeout.
	Wait *time.Duration
	// Patient sets the maximum timeout if neither the agent nor the descriptor states one, instead of the default.
	Patient bool
	// Unattended says that no caller waits for the end of the run. Its provider gets the timeout of the agent or of the descriptor, also a longer one
	// than the bridge waits for anything, or none, unless it can't be asked about the run.
	Unattended bool
	// Followed says that the run is asked about also after the call, by calls with a Poll.
	Followed bool
	// Consent is how long [Bridge.Connected] waits for the user, and Scopes are those that the user has to have consented to. May be nil.
	Consent time.Duration
	Scopes  []string
	// Detached is for [Bridge.Resume]: no caller waits for the end of the run, so the limits do not count the call, and its
	// Wait is the maximum timeout if it has none.
	Detached bool
	// Poll says that the call is one of many that ask about a run that no caller waits for; nil: it is none.
	Poll *Poll
	// Prepare sets the Inputs once the skill is found, for [Bridge.Start], which does not keep it; nil: the Inputs are known.
	Prepare Preparation
	// Task returns the id of the front's record of the call, for reports, once the call has ended; empty: there is none. nil:
	// the front keeps no records.
	Task func() string
}

// Poll is what is known to who asks about a run again and again. A poll that learns nothing new is not reported.
type Poll struct {
	Known   run.State     // of the run
	Failing bool          // the poll before has failed
	Next    time.Duration // after which the next one is made, unless the provider asks for a longer time
}

// isNews reports whether the outcome of the call is to be reported.
func (c *Call) isNews(o *run.Run) bool {
	switch p := c.Poll; {
	case p == nil, o.State.Ended():
		return true
	case o.Failure != nil:
		return !p.Failing || o.Failure.EndsRun() && !o.Failure.NotOffered()
	default:
		return o.State > p.Known
	}
}

// deadline is when the call ends at the latest.
func (c *Call) deadline(timeout time.Duration) time.Time { return c.Arrived.Add(timeout) }

// until is when the agent's wait ends; zero: with the run, or the timeout.
func (c *Call) until(timeout time.Duration) time.Time {
	if c.Wait == nil {
		return time.Time{}
	}
	return c.deadline(min(*c.Wait, timeout))
}

// Listing is the answer to a [Query].
type Listing struct {
	// Skills are in the byte order of their names; those of a page are in the byte order of their tool names, unless the query
	// says ByName, and the results of a search in the order of their ranks.
	Skills []catalog.Entry
	// Unavailable are the sources that could not be read, or of which descriptors could not be read.
	Unavailable []catalog.Unavailable
	// Stale are the sources whose lists are those of before, since they can't be read at the moment.
	Stale []catalog.Unavailable
	// FreshUntil is when the first of the sources' lists of skills is no longer fresh; zero: one of them can't be read.
	FreshUntil time.Time
	// Private says that the listing depends on the principal: a source has skills that lists for anonymous callers do not have.
	// All pages say the same.
	Private bool
	// Read is how many sources' lists of skills could be read. Their descriptors do not matter.
	Read int
	// Broken is how many skills were left out because they are known not to work. It does not count those that a page has read.
	Broken int
	// Reserved says that the tool of [Query.Reserved] is on the page.
	Reserved bool
	// NextAfter is the AfterTool or AfterName of the query for the next page; empty: there are no more skills, or it was no query for a page.
	NextAfter string
}

// Unread returns why the list of no source could be read; nil: at least one could, or there is no source. Otherwise a list is an answer, also if it
// has no skills: there may be more on its next page.
func (l *Listing) Unread() *run.Failure {
	if l.Read > 0 || len(l.Unavailable) == 0 {
		return nil
	}
	return l.Unavailable[0].Failure
}

// Query selects the skills of a [Listing].
type Query struct {
	run.Caller

	Namespace string // only this one; empty: all
	// Limit is how many skills a page has at most. 0: the listing is not a page. A page is in the order of the tool names, and
	// has only skills with tool names, unless ByName is set.
	Limit int
	// AfterTool is the tool name after which the page begins.
	AfterTool string
	// Reserved is the name of a tool that is no skill, and takes a place in the pages; empty: there is none.
	Reserved string
	// ByName says that the page is in the order of the skills' names, and has all of them. It begins after the name AfterName.
	ByName    bool
	AfterName string
	// Usable leaves out the skills of a page, or the results of a search, that the principal can't call, as far as is known when their
	// Descriptors were read, of which there must be as many as Limit, and those that are not Executable. So there may be fewer skills
	// than Limit.
	Usable bool
	// Connectable keeps those, with Usable, of which calls ask the user of the principal to connect an account first.
	Connectable bool
	// Executable leaves out the sources whose skills can only be read, and the skills that are known not to work.
	Executable bool
	// CapabilityType is the type of the skills of a page or of the results of a search; empty: any.
	CapabilityType document.CapabilityType
	// Descriptors is how many skills the listing may have for their descriptors to be read, too; 0: none is read.
	// They come from the cache where they are fresh. The others are read as [discovery.Stalls] says, in at most 10 seconds.
	// A page, and the results of a search, have only those that could be read. Those whose descriptors can't be used are logged.
	// The others are missing because of their source, which is Unavailable: there was no time, or a host can't be reached.
	Descriptors int
}

// Description is what the bridge knows about one skill.
type Description struct {
	Name       string // what [Call.Name] accepts
	Namespace  string
	Hidden     bool // lists for anonymous callers do not have it
	Descriptor *document.Descriptor
	// Entry is what the source lists of a skill whose descriptor can't be read or used; nil: it is not known.
	Entry *catalog.Entry
	// Document is the descriptor as published.
	Document jsontext.Value
	// Files are those of a skill that can only be read; nil: the skill can be executed.
	Files *skillsite.Files
	// FreshUntil is when the source's list of skills is no longer fresh; zero: it is not in the cache.
	FreshUntil time.Time
	// Denied is the failure of a call because the bridge can't send it, or has no usable credential for the skill, or because the provider has
	// refused it; nil: it has one, or needs none.
	Denied *run.Failure
	// Held says that the provider has changed the descriptor, and that the earlier one is used; nil: it is the newest.
	Held *discovery.Held
	// State is what is known about calls of the skill, and Since when it became known; zero: it is not known since when.
	State catalog.State
	Since time.Time
	// Typical and P95 are the median and the 95th percentile of the execution times of earlier runs; zero: none is known.
	Typical, P95 time.Duration
	// Timeout is the one of a call that states none.
	Timeout time.Duration
	// Tool is the skill's name for language models, as in a [catalog.Entry] of a page; empty: it has none.
	Tool string
	// OutputSchema is the JSON Schema of the output; nil: the descriptor has none that the bridge can apply.
	OutputSchema jsontext.Value
}

// Preparation is what a front does during [Bridge.Start], if it has to know the skill before it has the inputs, or has to
// keep a record of the run before the provider knows it. The goroutine of Start calls both methods, at most once each. Their
// contexts have the deadline of the call.
type Preparation interface {
	// Inputs returns the inputs of the call, once the skill is found. A failure ends the call.
	Inputs(ctx context.Context, s *Skill) (jsonrpc.Object, *run.Failure)
	// Invoke is called once the inputs are valid and the call is within all limits, directly before the inputs are sent. A
	// failure ends the call; nothing was executed then.
	Invoke(ctx context.Context, s *Skill) *run.Failure
}

// Skill is the skill that a call has found.
type Skill struct {
	// Name is the skill's name as the bridge lists it.
	Name string
	// Ref has the source, the skill's id and its version, but no execution.
	Ref run.Ref
	// Descriptor must not be changed.
	Descriptor *document.Descriptor
	// Deadline is the end of the timeout that is sent to the provider; zero: none is sent.
	Deadline time.Time

	execution *execution
	valid     jsontext.Value // inputs that Check has found complete and valid
}

// Main returns the SKILL.md of a skill that can only be read; nil: the skill can be executed.
func (s *Skill) Main() []byte {
	files := s.execution.found.Skill.Files
	if files == nil {
		return nil
	}
	text, _ := files.Get(skillsite.Main)
	return text
}

// Check checks the inputs that are given. It returns the failure of the first invalid one, and the names of the required
// inputs without a default that are missing, in the descriptor's order. A check counts like that of the bridge itself, which
// does not repeat it for the same text.
func (s *Skill) Check(given jsonrpc.Object) (missing []string, invalid *run.Failure) {
	x := s.execution
	missing, invalid = x.found.Skill.CheckGiven(x.ctx, x.call.Principal, given, x.call.Checks)
	if missing == nil && invalid == nil && x.ctx.Err() == nil {
		s.valid = given.Text
	}
	return missing, invalid
}

// hasChecked reports whether Check has found a text complete and valid.
func (s *Skill) hasChecked(text jsontext.Value) bool {
	return s.valid != nil && bytes.Equal(s.valid, text) // at once for the same text in the same place
}

// OutputSchema returns the JSON Schema of the output; nil: the descriptor has none that the bridge can apply.
func (s *Skill) OutputSchema() jsontext.Value { return s.execution.found.Skill.OutputSchema() }

// CheckOutput checks an output by the schema of the descriptor. It returns nil if the output is valid, or if there is no schema. The work
// counts like that of checking the inputs.
func (s *Skill) CheckOutput(ctx context.Context, output jsontext.Value) *run.Failure {
	x := s.execution
	return x.found.Skill.CheckOutput(ctx, x.call.Principal, output, x.call.Checks)
}

// prepare lets the front set the inputs of the call, if it has a [Preparation]. It returns nil if it has none.
func prepare(x *execution) (*Skill, *run.Failure) {
	if x.call.Prepare == nil {
		return nil, nil
	}
	if x.call.Checks == nil {
		x.call.Checks = new(inputs.Checks) // for all checks of the call together
	}
	s := skillOf(x)
	var failure *run.Failure
	x.call.Inputs, failure = x.call.Prepare.Inputs(x.ctx, s)
	return s, failure
}
