package quota

import (
	"fmt"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Rules are the rules of an operator.
type Rules struct {
	// Groups are principals by the name of their group, as in [access.Rules].
	Groups map[string][]string
	// List has the rules. All that apply bind.
	List []Rule
}

// Rule bounds the calls of some skills by each of some callers.
type Rule struct {
	// Principal is the name of a group, or else a principal, or [access.Everyone].
	Principal string
	// Skills is a pattern, as in [access.Rule].
	Skills string
	// Rate bounds the calls that begin: Count may begin at once, and as many in each Per.
	Rate Amount
	// Concurrent bounds the calls in progress and the runs that go on; 0: it does not.
	Concurrent int
	// Runs bounds the runs in a window of the duration Per. The first run begins the window.
	Runs Amount
}

// Amount is a number in a time. The zero value is no bound.
type Amount struct {
	Count int
	Per   time.Duration
}

// Policy says which rules apply to each call. It is immutable. A nil Policy has no rules.
type Policy struct {
	rules    []rule
	named    map[string][]int // indexes of the rules that apply, by principals that a rule or a group names
	others   []int            // of the rules that apply to other principals, and to anonymous callers
	counters *Counters
}

// Rules returns the rules, in their order.
func (p *Policy) Rules() []Rule {
	if p == nil {
		return nil
	}
	list := make([]Rule, len(p.rules))
	for i := range p.rules {
		list[i] = p.rules[i].Rule
	}
	return list
}

// rule is a Rule with the name of its counts.
type rule struct {
	Rule
	id string
}

// New makes a policy whose counts are in counters; nil if there are no rules. Policies with the same counters share the counts of equal rules.
func New(rules *Rules, counters *Counters) *Policy {
	if rules == nil || len(rules.List) == 0 {
		return nil
	}
	p := &Policy{rules: make([]rule, len(rules.List)), counters: counters}
	principals := make([]string, len(rules.List))
	for i, r := range rules.List {
		principals[i] = r.Principal
		p.rules[i] = rule{r, fmt.Sprintf("%+v", r)}
	}
	p.named, p.others = access.Applying(rules.Groups, principals)
	return p
}

// Skill is the skill of a call.
type Skill interface {
	// Named reports whether the skill has a name, or could have it if its source did not list others: a rule for the name binds in both cases, so
	// that no source ends it by listing another skill with the name.
	Named(name string) bool
}

// Take counts a call of a principal, until [Grant.End] is called. Namespace is that of the skill's source; empty: it has none. A failure says
// which rule is exceeded; then nothing is counted. No grant and no failure: no rule applies.
func (p *Policy) Take(principal, namespace string, skill Skill) (*Grant, *run.Failure) {
	if p == nil {
		return nil, nil
	}
	applying, named := p.named[principal]
	if !named {
		applying = p.others
	}
	var g *Grant
	for _, i := range applying {
		r := &p.rules[i]
		if !r.appliesTo(namespace, skill) {
			continue
		}
		if g == nil {
			g = &Grant{counters: p.counters, principal: principal}
			g.parts = g.room[:0]
		}
		g.parts = append(g.parts, part{rule: r, id: r.id})
	}
	if g == nil {
		return nil, nil
	}
	if failure := p.counters.take(g, named); failure != nil {
		return nil, failure
	}
	return g, nil
}

func (r *rule) appliesTo(namespace string, skill Skill) bool {
	if r.Skills == access.Everyone {
		return true
	}
	if of, ok := access.Source(r.Skills); ok {
		return namespace != "" && of == namespace
	}
	return skill.Named(r.Skills)
}

// Follow says that a principal's run that goes on without its call is followed, until that time at the latest.
func (p *Policy) Follow(principal string, ref *run.Ref, until time.Time) {
	p.change(principal, ref, func(o *runOn) {
		if until.After(o.until) {
			o.until = until
		}
	})
}

// Ended says that a principal's run has ended.
func (p *Policy) Ended(principal string, ref *run.Ref) {
	p.change(principal, ref, func(o *runOn) { p.counters.remove(o) })
}

// change changes a run that goes on without its call, if it is known.
func (p *Policy) change(principal string, ref *run.Ref, change func(*runOn)) {
	if p == nil {
		return
	}
	c := p.counters
	id := c.digest(principal, ref)
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.left[id]; o != nil {
		change(o)
	}
}

// The names of the limits in failures.
const (
	limitRate       = "quota rate"
	limitConcurrent = "quota concurrent"
	limitRuns       = "quota runs"
	limitCallers    = "quota callers"
)

// exceeded is the failure of a call beyond a rule. It says nothing about other skills than the called one and those of the same source.
func (r *Rule) exceeded(name string, most int, what string, per, wait time.Duration) *run.Failure {
	if most == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	of := "this skill"
	if r.Skills == access.Everyone {
		of = "all skills"
	} else if namespace, ok := access.Source(r.Skills); ok {
		of = "skills of " + namespace
	}
	in := "at once"
	if per > 0 {
		in = "in " + text(per)
	}
	return refused(name, int64(most), fmt.Sprintf("The caller's quota for %s is used up (%s: %d %s %s); try again in %s.", of, name, most, what, in, text(wait)), wait)
}

// refused is the failure of a call that is not counted.
func refused(name string, most int64, message string, wait time.Duration) *run.Failure {
	return run.TooMuch(run.PhaseDiscovery, message, run.Limit{Name: name, Max: most, Own: true}, run.RetryIn(wait, 5))
}

// text returns a duration without units that are zero.
func text(d time.Duration) string {
	s := d.String()
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return s
}
