package mcp

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// If a skill needs an account of the user, a client that can open URLs is asked to have the user connect one, and then repeats the call with the answer and
// the requestState (2026-07-28, Multi Round-Trip Requests).

const (
	// questionLife is how long a question may be answered.
	questionLife = 10 * time.Minute
	// questionKey is the key of the question in inputRequests, and of its answer in inputResponses.
	questionKey = "connect"
)

// mayAsk notes what a question during the call is bound to, if the client can be asked.
func (r *request) mayAsk() {
	if r.modern && r.meta.OpensURLs && r.front.Questions != nil {
		arguments := string(keptcalls.Digest(r.Param("arguments").Value))
		r.question = []string{"mcp question", r.caller.Principal, jsonrpc.Text(r.Param("name").Value), arguments}
	}
}

// ask answers a call with the question to connect an account.
func (r *request) ask(f *run.Failure) (jsontext.Value, *jsonrpc.Error) {
	expiry := strconv.FormatInt(time.Now().Add(questionLife).Unix(), 10)
	state, err := r.front.Questions.SealText(r.ctx, expiry+" "+f.Demand.ConnectURL, r.question...)
	if err != nil {
		return nil, tokensUnavailable()
	}
	message := f.Message
	if f.By == run.Provider { // the user would take its text for the bridge's
		message = "The skill acts for its user at the provider, and the user has not consented to all that it does."
	}
	w := r.open(resultInputRequired)
	w.OpenMember("inputRequests")
	w.OpenMember(questionKey)
	w.Text("method", "elicitation/create")
	w.OpenMember("params")
	w.Text("mode", "url")
	w.Text("message", safetext.Line(message, maxMessage))
	w.Text("url", f.Demand.ConnectURL)
	w.Text("elicitationId", rand.Text())
	w.Close()
	w.Close()
	w.Close()
	w.Text("requestState", state)
	return w.end(), nil
}

// readAnswer reads the answer to a question from a call that is repeated. If the user agrees, it waits until the account is connected, for as long as a call
// waits for its run, and the client is not asked again. ended says that the call is answered with what it returns.
func (r *request) readAnswer(call *translate.Call) (value jsontext.Value, fault *jsonrpc.Error, ended bool) {
	state := r.Param("requestState").Value
	if r.question == nil || state == nil {
		return nil, nil, false
	}
	text, _, err := r.front.Questions.OpenText(r.ctx, jsonrpc.Text(state), r.question...)
	if err != nil {
		fault = tokensUnavailable()
		if errors.Is(err, runtoken.ErrInvalid) {
			fault = invalid("requestState is none of this server for this caller, tool and arguments; call the tool without it")
		}
		value, fault = r.refuse(fault)
		return value, fault, true
	}
	expiry, url, _ := strings.Cut(text, " ")
	if until, _ := strconv.ParseInt(expiry, 10, 64); time.Now().Unix() > until {
		return nil, nil, false // it is asked again
	}
	switch jsonrpc.Text(jsonrpc.ValueOf(jsonrpc.ValueOf(r.Param("inputResponses").Value, questionKey), "action")) {
	case "accept":
		r.question = nil
		until := r.caller.Arrived.Add(r.front.Options.Wait)
		waiting := translate.Call{Caller: front.Quiet(r.caller), Name: call.Name, Consent: time.Until(until), Scopes: run.LinkScopes(url)}
		_ = r.front.Bridge.Connected(r.ctx, waiting) // the call itself says more
		r.waited = time.Since(r.caller.Arrived)
		r.caller.Arrived = r.caller.Arrived.Add(r.waited) // the skill has all of its time
	case "decline", "cancel":
		demand := &run.Demand{By: run.Provider, Reason: "the user did not agree to connect an account", ConnectURL: url}
		failure := run.NeedsCredential(demand, "The user did not agree to connect the account that the skill needs, and nothing was executed. Do the following only if the user wants it after all.")
		r.report(failure)
		return explain(r, failure, ""), nil, true
	}
	return nil, nil, false
}
