package skillsprotocol

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// receiver is where the call-back of a run goes; its url is empty: there is none.
type receiver struct{ url, token string }

// notify reads the param notify.
func (p *params) notify(ctx context.Context, f *Front) (to receiver) {
	value := p.value(paramNotify)
	switch {
	case value == nil:
		return to
	case f.Callbacks == nil:
		p.reject(paramNotify, reasonUnsupported, "is not enabled: the operator of this bridge can enable it with the option webhooks; get_run with wait_ms tells how a run ends")
	case f.Kept == nil:
		p.reject(paramNotify, reasonUnsupported, "is not supported by this bridge, which has no database")
	case value.Kind() != '{':
		p.reject(paramNotify, reasonInvalid, "must be an object with url and token")
	}
	if p.failure != nil {
		return receiver{}
	}
	p.readNames(inNotify, jsonrpc.Object{Text: value}, []string{paramNotifyURL, paramNotifyToken})
	to = receiver{p.text(paramNotifyURL), p.text(paramNotifyToken)}
	checkReceiver(ctx, p, f.Callbacks, to)
	return to
}

// checkReceiver rejects a receiver that the operator does not allow.
func checkReceiver(ctx context.Context, p *params, by *callbacks.Sender, to receiver) {
	if p.failure != nil {
		return
	}
	if to.url == "" {
		p.reject(paramNotifyURL, run.Required, "is required: where the bridge sends the end of the run")
		return
	}
	if problem := by.Client.Check(ctx, to.url); problem != "" {
		p.reject(paramNotifyURL, reasonInvalid, problem)
		return
	}
	if to.token == "" {
		if len(by.Secrets) == 0 {
			p.reject(paramNotifyToken, run.Required, `is required: a secret of yours, with which the bridge signs the call-back: "whsec_" followed by 24 to 64 random bytes in base64`)
		}
		return
	}
	if _, err := callbacks.ParseSecret(to.token); err != nil {
		p.reject(paramNotifyToken, reasonInvalid, err.Error())
	}
}

// The type of call-backs.
const typeRunEnded = "run.ended"

// Callback returns what a call-back says about a run that has ended: the result or error that get_run has; nil: its owner may not see it any
// more. Without an outcome, it leaves that out.
func (f *Front) Callback(ctx context.Context, e *ledger.Entry, o *run.Run) []byte {
	caller := e.Owner.Principal
	ctx = translate.WithCaller(ctx, run.Caller{Principal: caller, Front: Name})
	if !f.Bridge.Permits(&e.Ref, caller) {
		return nil
	}
	token := f.tokenOf(ctx, &run.Run{Ref: e.Ref})
	var result jsontext.Value
	var fault *jsonrpc.Error
	if o == nil {
		result = omitted(e, token)
	} else {
		result, fault = f.answerOutcome(ctx, new(jsonrpc.Request), o, e.Skill)
	}
	b := builder{front.Writer{Buf: make([]byte, 0, 512+len(result)+len(token))}}
	b.Open()
	b.Text("type", typeRunEnded)
	b.Text("timestamp", timeText(e.Changed))
	b.OpenMember("data")
	b.Optional("caller", caller)
	b.Text("skill", e.Skill)
	b.Optional("run_id", e.Ref.ExecutionID)
	b.Optional("run_token", token)
	if fault == nil {
		b.Raw("result", result)
	} else {
		b.Error(fault)
	}
	b.Close()
	b.Close()
	return b.Buf
}

// omitted returns the result of a run whose outcome is too large for a call-back.
func omitted(e *ledger.Entry, token string) jsontext.Value {
	status, verb := "completed", " completed."
	if e.State != ledger.Completed {
		status, verb = "failed", " failed."
	}
	b := resultOf(nil, status, e.Ref.ExecutionID, token, "Skill "+safetext.Line(e.Skill, maxName)+verb+" What it returned is too large for a call-back: "+methodGetRun+" with the run_token returns it.")
	b.Bool("omitted", true)
	b.Close()
	return b.Buf
}
