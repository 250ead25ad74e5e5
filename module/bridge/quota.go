package bridge

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
)

// Quota bounds how much each of some callers may use some skills. It needs at least one of `rate`, `concurrent` and `runs`. Each
// caller has counts of its own, also under a quota for a group or for all callers; all anonymous callers together are one caller. All
// quotas that apply to a call bind. A call beyond one is answered RATE_LIMITED at once and counts under none. Calls that execute a skill
// count, and no others; a repeated call with an idempotency key whose run exists does not count. Counts are those of this process, and
// a reload keeps them where the quota and the handler's options `name` and `principal` stay the same.
type Quota struct {
	// Whom the quota is for: the name of a group of `access`; or else a principal; or `*`, all
	// callers, anonymous ones included. Required. Example: `*`.
	Principal string `json:"principal" option:"-"`

	// A pattern of skills, as in the rules of `access`: all skills that it matches share one
	// count of the caller. Default: `*`. Example: `acme.*`.
	Skills string `json:"skills,omitempty" option:"-"`

	// How many calls may begin. As many may begin at once, if the caller made none before.
	// Default: no bound. Example: `{"count": 60, "per": "1m"}`.
	Rate *Allowance `json:"rate,omitempty"`

	// How many calls may be in progress, together with the runs that go on after them, at most
	// 10000. Such a run counts until the bridge reads its end, at most until its call would
	// have timed out; a run that the bridge follows without a call counts as long as it is
	// followed, from each poll to the next. Default: no bound. Example: `4`.
	Concurrent int `json:"concurrent,omitempty"`

	// How many runs may be accepted in a window that begins with the first of them. A call
	// takes its place when it begins, and gives it back if certainly nothing was executed.
	// Default: no bound. Example: `{"count": 1000, "per": "24h"}`.
	Runs *Allowance `json:"runs,omitempty"`
}

// Allowance is a number in a time.
type Allowance struct {
	// The number, from 1 to 1000000000. Required.
	Count int `json:"count"`

	// The time, from 1ms to 366 days. Required.
	Per caddy.Duration `json:"per"`
}

// Bounds of the values of a quota.
const (
	maxConcurrent = 10_000
	maxAllowance  = 1_000_000_000
	maxPeriod     = 366 * 24 * time.Hour
)

// quota parses one quota.
func (p parser) quota(to *[]Quota) error {
	path := options.Element("quotas", len(*to))
	p.Mark(path)
	var q Quota
	allowance := func(name, what string, to **Allowance) func() error {
		return func() error {
			a := new(Allowance)
			*to = a
			return p.Args(name, what+" and a duration, such as 60 1m", 2, &a.Count, &a.Per)
		}
	}
	err := p.BlockWith("quota", path, "a principal, a group or *, and optionally a pattern of skills", 1, &q, options.Targets{
		"rate": allowance("rate", "a number of calls", &q.Rate),
		"runs": allowance("runs", "a number of runs", &q.Runs),
	}, &q.Principal, &q.Skills)
	*to = append(*to, q)
	return err
}

// rule returns the rule for the core.
func (q *Quota) rule() quota.Rule {
	r := quota.Rule{Principal: q.Principal, Skills: q.Skills, Concurrent: q.Concurrent}
	if r.Skills == "" {
		r.Skills = access.Everyone
	}
	if q.Rate != nil {
		r.Rate = quota.Amount{Count: q.Rate.Count, Per: time.Duration(q.Rate.Per)}
	}
	if q.Runs != nil {
		r.Runs = quota.Amount{Count: q.Runs.Count, Per: time.Duration(q.Runs.Per)}
	}
	return r
}

// groups returns the groups of access.
func (c *Callers) groups() map[string][]string {
	if c.Access == nil {
		return nil
	}
	return c.Access.Groups
}

// checkQuotas checks the quotas by the names in the configuration.
func (c *Callers) checkQuotas(k *options.Checker, names *sources.Names) {
	before := map[quota.Rule]bool{}
	for i := range c.Quotas {
		q, path := &c.Quotas[i], options.Element("quotas", i)
		if q.Principal != access.Everyone && c.groups()[q.Principal] == nil {
			k.Check(path+".principal", checkPrincipalName("principal", q.Principal))
		}
		r := q.rule()
		k.Check(path+".skills", checkPattern(r.Skills, names))
		k.Check(path+".rate", q.Rate.check("rate"))
		k.Check(path+".runs", q.Runs.check("runs"))
		switch {
		case q.Concurrent < 0:
			k.Check(path+".concurrent", fmt.Errorf("concurrent %d is negative", q.Concurrent))
		case q.Concurrent > maxConcurrent:
			k.Check(path+".concurrent", fmt.Errorf("concurrent %d is too large: the maximum is %d", q.Concurrent, maxConcurrent))
		case q.Rate == nil && q.Runs == nil && q.Concurrent == 0:
			k.Check(path, errors.New("quota has none of rate, concurrent and runs, so it bounds nothing"))
		case before[r]:
			k.Check(path, errors.New("an earlier quota is the same, so this one has no effect"))
		}
		before[r] = true
	}
}

func (a *Allowance) check(name string) error {
	switch {
	case a == nil:
		return nil
	case a.Count < 1 || a.Count > maxAllowance:
		return fmt.Errorf("%s %d is out of range: it is 1 to %d", name, a.Count, maxAllowance)
	case time.Duration(a.Per) < time.Millisecond || time.Duration(a.Per) > maxPeriod:
		return fmt.Errorf("%s has the duration %s, which is out of range: it is 1ms to 366d", name, options.Shown(a.Per))
	}
	return nil
}

// countersPool keeps the counts of callers over reloads. Its keys are the realms of handlers.
var countersPool = lifetime.NewPool[*quota.Counters]()

// holdQuotas returns the quotas for the core, and a function that releases their counts. The realm identifies the principals of the handler.
func (c *Callers) holdQuotas(realm string) (*quota.Policy, func(), error) {
	if len(c.Quotas) == 0 {
		return nil, func() {}, nil
	}
	counters, release, err := countersPool.Hold(realm, func() (*quota.Counters, error) { return quota.NewCounters(nil), nil })
	if err != nil {
		return nil, nil, err
	}
	rules := &quota.Rules{Groups: c.groups()}
	for i := range c.Quotas {
		rules.List = append(rules.List, c.Quotas[i].rule())
	}
	return quota.New(rules, counters), release, nil
}
