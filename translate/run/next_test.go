package run_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func TestNext(t *testing.T) {
	no, maybe, yes := run.ExecutedNo, run.ExecutedMaybe, run.ExecutedYes
	for _, c := range []struct {
		about   string
		failure run.Failure
		want    run.Next
	}{
		{"a run that failed", run.Failure{Kind: run.RunFailed, Executed: yes}, run.NextNone},
		{"a run that is lost", run.Failure{Kind: run.ProviderFault, Executed: yes, Lost: true}, run.NextNone},
		{"a deadline before anything was sent", run.Failure{Kind: run.DeadlineExceeded, Executed: no}, run.NextRetry},
		{"a deadline while it may have been executed", run.Failure{Kind: run.DeadlineExceeded, Executed: maybe}, run.NextNone},
		{"a deadline of a run", run.Failure{Kind: run.DeadlineExceeded, Executed: yes, Phase: run.PhasePoll}, run.NextFollowRun},
		{"a caller that has gone", run.Failure{Kind: run.CallerGone, Executed: no}, run.NextRetry},
		{"arguments", run.Failure{Kind: run.InvalidArguments, Executed: no}, run.NextFixParams},
		{"what is not supported", run.Failure{Kind: run.InvalidArguments, Executed: no, Argument: &run.Argument{Reason: run.Unsupported}}, run.NextNone},
		{"a name", run.Failure{Kind: run.SkillNotFound, By: run.Bridge, Executed: no}, run.NextFixParams},
		{"a skill that is gone", run.Failure{Kind: run.SkillNotFound, By: run.Provider, Executed: no}, run.NextOtherSkill},
		{"a rule", run.Failure{Kind: run.Unreachable, Executed: no, Refused: run.RulePort}, run.NextAskOperator},
		{"a caller without a principal", run.Failure{Kind: run.AuthRequired, Executed: no, Demand: run.NoPrincipal()}, run.NextAuthenticate},
		{"a credential", run.Failure{Kind: run.AuthRequired, Executed: no, Phase: run.PhaseAuth}, run.NextAskOperator},
		{"a credential for a poll", run.Failure{Kind: run.AuthRequired, Executed: yes, Phase: run.PhasePoll}, run.NextFollowRun},
		{"a credential before a run is asked about", run.Failure{Kind: run.AuthRequired, Executed: yes, Phase: run.PhaseAuth}, run.NextAskOperator},
		{"an account that the user has not connected", run.Failure{Kind: run.AuthRequired, Executed: no, Demand: &run.Demand{ConnectURL: "https://c.example"}}, run.NextConnect},
		{"an account for a run under way", run.Failure{Kind: run.AuthRequired, Executed: yes, Phase: run.PhasePoll, Demand: &run.Demand{ConnectURL: "https://c.example"}}, run.NextConnect},
		{"a descriptor of a run", run.Failure{Kind: run.InvalidDocument, Executed: yes, Phase: run.PhaseDescriptor}, run.NextOtherSkill},
		{"an index that is none", run.Failure{Kind: run.InvalidDocument, Executed: no, Phase: run.PhaseDiscovery}, run.NextAskOperator},
		{"no index", run.Failure{Kind: run.ProviderFault, Executed: no, Phase: run.PhaseDiscovery, HTTPStatus: 204}, run.NextAskOperator},
		{"an entry of an index", run.Failure{Kind: run.InvalidDocument, Executed: no, Phase: run.PhaseDiscovery, Cause: run.ErrEntry}, run.NextOtherSkill},
		{"an index of a run that is down", run.Failure{Kind: run.Unreachable, Executed: yes, Phase: run.PhaseDiscovery}, run.NextFollowRun},
		{"a bug", run.Failure{Executed: no}, run.NextNone},
		{"a bug that passes", run.Failure{Executed: no, Retry: run.RetryIn(1, 1)}, run.NextRetry},
	} {
		if next := c.failure.Next(); next != c.want {
			t.Errorf("%s: %s, want %s", c.about, next, c.want)
		}
	}
}

// Rewrite does not change data that a failure shares with others.
func TestRewrite(t *testing.T) {
	shared := run.Failure{
		Message: "a", Argument: &run.Argument{Name: "a", Candidates: []string{"a"}}, Demand: &run.Demand{Header: "a", Scopes: map[string]string{"a": "a"}},
		Violations: []run.Violation{{Path: "a"}}, Reach: &run.Reach{URL: "a"}, Provider: &run.ProviderError{Code: "a"},
	}
	own := shared
	own.Rewrite(func(text string) string { return text + "b" }, func(v jsontext.Value) jsontext.Value { return v })
	for _, f := range []struct {
		run.Failure
		want string
	}{{shared, "a"}, {own, "ab"}} {
		if f.Message != f.want || f.Argument.Name != f.want || f.Argument.Candidates[0] != f.want || f.Demand.Header != f.want || f.Demand.Scopes[f.want] != f.want ||
			f.Violations[0].Path != f.want || f.Reach.URL != f.want || f.Provider.Code != f.want {
			t.Errorf("%+v, want %q everywhere", f.Failure, f.want)
		}
	}
}
