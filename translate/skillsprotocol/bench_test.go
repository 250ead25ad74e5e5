package skillsprotocol

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Each benchmark measures one step of a call.

func BenchmarkDecodeExecute(b *testing.B) {
	raw := jsontext.Value(`{"name":"example-corp.weather-forecast","args":{"location":"Tokyo","days":5,"units":["c","mm"]},"timeout_ms":30000}`)
	ctx := translate.WithCaller(b.Context(), run.Caller{Principal: "ada"})
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		p := readParams(&jsonrpc.Request{Method: methodExecute, Params: raw})
		if call := executeCall(ctx, &p); p.failure != nil || call.Name == "" {
			b.Fatal(p.failure)
		}
	}
}

func BenchmarkEncodeOutcome(b *testing.B) {
	for name, o := range map[string]run.Run{
		"completed": {Ref: run.Ref{SkillID: "example-corp/weather-forecast", ExecutionID: "exec-a1b2c3d4"}, State: run.Completed, Elapsed: 5200 * time.Millisecond, Output: jsontext.Value(`{"location":"Tokyo","forecasts":[{"date":"2025-07-01","high":31,"low":24,"condition":"sunny"}]}`)},
		"error": {Ref: run.Ref{SkillID: "example-corp/weather-forecast"}, Failure: &run.Failure{
			Kind: run.PermissionDenied, Message: "Insufficient permissions to invoke this skill", By: run.Provider, HTTPStatus: 403,
			Phase: run.PhaseInvoke, Executed: run.ExecutedNo, Provider: &run.ProviderError{Details: jsontext.Value(`{"required_scopes":["read:forecast"]}`)},
		}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if result, fault := new(Front).answerOutcome(b.Context(), new(jsonrpc.Request), &o, "example-corp.weather-forecast"); result == nil && fault == nil {
					b.Fatal("no answer")
				}
			}
		})
	}
}
