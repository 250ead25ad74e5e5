package skillsprotocol

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// KeptRuns are the runs of calls with idempotency keys, and of those that ask for a call-back.
type KeptRuns struct {
	*ledger.Ledger
	// Owner returns the owner of the runs of a principal: the same name may be another principal at another handler.
	Owner func(principal string) ledger.Owner
	// MaxOutput is the size of the largest output, in bytes.
	MaxOutput int64
}

// headerKey is the header with an idempotency key (draft-ietf-httpapi-idempotency-key-header), in its canonical form.
const headerKey = "Idempotency-Key"

// maxKey is the length of the longest key.
const maxKey = 255

// idempotencyKey reads the key of a call, from the param or the header; empty: it has none.
func (f *Front) idempotencyKey(p *params, principal string) string {
	key := p.text(paramKey)
	if r := p.request.HTTP; r != nil && len(r.Header[headerKey]) > 0 {
		sent, err := front.ParseKey(r.Header[headerKey])
		switch {
		case err != nil:
			p.refuse(headerKey, reasonInvalid, "the header "+headerKey+" "+err.Error())
		case p.request.InBatch():
			p.refuse(headerKey, reasonInvalid, "the header "+headerKey+" is one key, but the request is a batch: give each call a key of its own with '"+keptcalls.ParamKey+"'")
		case key != "" && key != sent:
			p.reject(paramKey, reasonInvalid, "differs from the header "+headerKey+": send one of them, or the same key in both")
		}
		key = sent
	}
	switch {
	case key == "" || p.failure != nil:
	case f.Kept == nil:
		p.reject(paramKey, reasonUnsupported, "is not supported by this bridge, which has no database")
	case len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		p.reject(paramKey, reasonInvalid, "must have 1 to 255 printable ASCII characters")
	case principal == "" && !isRandomUUID(key):
		p.reject(paramKey, reasonInvalid, "must be a random UUID (version 4 or 7) unless the caller authenticates: all anonymous callers share their keys, and who repeats a call gets its outcome")
	}
	return key
}

// refuse sets the failure for something that is no param, unless a param was rejected before.
func (p *params) refuse(name string, reason run.Reason, message string) {
	if p.failure == nil {
		p.failure = invalidParam(name, reason, message, nil)
	}
}

// isRandomUUID reports whether a key can't be guessed, if it was made as it says.
func isRandomUUID(key string) bool {
	u, err := uuid.Parse(key)
	return err == nil && len(key) == len(u.String()) && (u.Version() == 4 || u.Version() == 7)
}

// executeKept answers a call with an idempotency key or with a receiver for the end of its run.
func (f *Front) executeKept(ctx context.Context, p *params, call translate.Call, key string, to receiver) (jsontext.Value, *jsonrpc.Error) {
	call.Answer = p.request
	call.Inputs = jsonrpc.Object{Text: call.Inputs.Text.Clone()} // the run may be submitted after the request has ended
	call.Inputs.Members = membersOf(call.Inputs.Text)
	q := &keptcalls.Request{Owner: f.Kept.Owner(call.Principal), Key: key, Call: call, MaxOutput: f.Kept.MaxOutput, Differs: f.Callbacks.Differs(ctx, to.url, to.token)}
	if to.url != "" {
		notes, err := f.Callbacks.Notes(ctx, q.Owner, to.url, to.token)
		if err != nil {
			return nil, p.tokensUnavailable(run.ExecutedNo, err)
		}
		q.Notes, q.Claimed = notes, f.Callbacks.Claimed
	}
	bridge := f.bridge(p)
	p.release()
	a := keptcalls.Execute(ctx, f.Kept.Ledger, bridge, q)
	p.unknown, p.skill = a.Unknown, a.Skill
	if fault := withoutRunToken(p, call.Name, a.Failure); fault != nil {
		return nil, fault
	}
	if a.Failure == nil && !p.request.Reserve(int64(len(a.Output))+2<<10) {
		a.Failure = exchange.NoRoom(p.request, run.PhaseResult, a.ExecutionID, run.ExecutedYes, true)
		a.Output = nil
	}
	p.hinted, p.faults = isOnlyRead(a.Failure), a.Warnings
	if key != "" && a.Failure != nil && a.Failure.Executed == run.ExecutedMaybe && a.ExecutionID == "" {
		p.advice = "the bridge does not submit this call again: ask the provider whether the skill was executed, or call it with a new key if executing it twice does no harm"
		if a.Entry == nil { // an earlier call is still being submitted
			p.advice = "send this call again, with the same key, after the delay in 'retry': it joins the run of the earlier call. A new key would execute the skill twice"
		}
	}
	return f.answerOutcome(ctx, p.request, &a.Run, call.Name)
}
