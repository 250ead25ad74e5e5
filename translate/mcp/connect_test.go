package mcp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// consenting returns a server in a bubble whose tool acme_book needs an account of the user.
func consenting(t *testing.T) (*server, *providertest.Accounts) {
	t.Helper()
	s, accounts := &server{Provider: providertest.New(), bubble: true}, new(providertest.Accounts)
	s.On("POST /run/book", providertest.Completed("e", "booked"))
	s.serve(t, func(s *server) {
		s.config.Sources[0].Credentials, s.config.Grants = accounts, accounts.Next
		s.front.Questions = s.front.Tokens.(tokens).Sealer
	}, skill("book", providertest.OAuth2(), providertest.Input("at", "integer", object{"required": false})), skill("free", nil))
	return s, accounts
}

// urls makes a client one that can open URLs.
var urls = object{"elicitation": object{"form": object{}, "url": object{}}}

// answer calls acme_book with what a question asked for.
func (s *server) answer(t *testing.T, state any, action string, change func(params, capabilities object), header ...string) *got {
	t.Helper()
	params, capabilities := object{"name": "acme_book", "arguments": object{"at": 7}}, urls
	if state != nil {
		params["requestState"] = state
	}
	if action != "" {
		params["inputResponses"] = object{"connect": object{"action": action}}
	}
	if change != nil {
		change(params, capabilities)
	}
	return s.modernWith(t, capabilities, "tools/call", params, header...)
}

// TestConnect: a client that can open URLs is asked to, and its repeated call waits for the account.
func TestConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, accounts := consenting(t)
		ada := []string{"User", "ada"}
		g := s.answer(t, nil, "", nil, ada...)
		question, state := at(g.result(), "inputRequests", "connect"), g.result()["requestState"]
		params, _ := at(question, "params").(object)
		if g.result()["resultType"] != "input_required" || at(question, "method") != "elicitation/create" || params["mode"] != "url" ||
			params["url"] != providertest.ConnectURL || params["message"] != "The skill needs an account of the user." || params["elicitationId"] == "" || g.result()["isError"] != nil {
			t.Fatal(g.text)
		}
		if strings.Contains(state.(string), "ada") {
			t.Error("the state can be read")
		}
		time.AfterFunc(3*time.Second, func() { accounts.Set("ada", true) })
		began := time.Now()
		if g = s.answer(t, state, "accept", nil, ada...); time.Since(began) != 3*time.Second || at(g.result(), "structuredContent") != "booked" {
			t.Errorf("after %v: %s", time.Since(began), g.text)
		}
		if r := s.Requests("POST /run/book"); len(r) != 1 || r[0].Header.Get("Authorization") != "Bearer ada" {
			t.Errorf("%+v", r)
		}
		accounts.Set("ada", false)
		// Without the grant, the call waits as long as for a run, and the user is not asked again and again.
		began = time.Now()
		if g = s.answer(t, state, "accept", nil, ada...); time.Since(began) != 5*time.Second || !s.asksInText(g) {
			t.Errorf("after %v: %s", time.Since(began), g.text)
		}
		// An answer without an action, and one that is late, is no answer.
		for _, action := range []string{"", "maybe"} {
			if g = s.answer(t, state, action, nil, ada...); g.result()["resultType"] != "input_required" {
				t.Errorf("%q: %s", action, g.text)
			}
		}
		time.Sleep(10*time.Minute + time.Second)
		if g = s.answer(t, state, "accept", nil, ada...); g.result()["resultType"] != "input_required" {
			t.Errorf("late: %s", g.text)
		}
		s.Received(t, "POST /run/book", 1)
	})
}

// asksInText reports whether a result is an error whose text has the link.
func (s *server) asksInText(g *got) bool {
	text, _ := at(g.result(), "content", 0, "text").(string)
	failure := at(g.result(), "_meta", "io.github.skill-bridge/error")
	return g.result()["isError"] == true && strings.Contains(text, "Ask the user to open "+providertest.ConnectURL+" ") && at(failure, "next") == "connect" &&
		at(failure, "executed") == "no" && at(failure, "code") == "AUTH_REQUIRED" && at(failure, "details", "connect_url") == providertest.ConnectURL
}

// TestS221Declined: if the user does not agree, nothing is executed, also if there is an account meanwhile.
func TestS221Declined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, accounts := consenting(t)
		state := s.answer(t, nil, "", nil, "User", "ada").result()["requestState"]
		for _, action := range []string{"decline", "cancel"} {
			began := time.Now()
			if g := s.answer(t, state, action, nil, "User", "ada"); !s.asksInText(g) || !strings.Contains(g.text, "only if the user wants it after all") || time.Since(began) > 0 {
				t.Errorf("%s: after %v %s", action, time.Since(began), g.text)
			}
			accounts.Set("ada", true)
		}
		s.Received(t, "POST /run/book", 0)
	})
}

// TestS222ForeignState: the answer to a question counts for its caller, tool and arguments only.
func TestS222ForeignState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, accounts := consenting(t)
		state := s.answer(t, nil, "", nil, "User", "ada").result()["requestState"].(string)
		runToken, err := s.front.Tokens.(tokens).SealText(t.Context(), "9999999999 https://evil.example", "other")
		if err != nil {
			t.Fatal(err)
		}
		for user := range map[string]bool{"ada": true, "bob": true} {
			accounts.Set(user, true)
		}
		for about, c := range map[string]struct {
			state, user string
			change      func(params, capabilities object)
		}{
			"of another caller":    {state, "bob", nil},
			"for other arguments":  {state, "ada", func(params, _ object) { params["arguments"] = object{"at": 8} }},
			"for another tool":     {state, "ada", func(params, _ object) { params["name"] = "acme_free" }},
			"by another name":      {state, "ada", func(params, _ object) { params["name"] = "acme.book" }},
			"changed":              {state[:20] + state[21:], "ada", nil},
			"of another purpose":   {runToken, "ada", nil},
			"not sealed":           {"9999999999 https://evil.example", "ada", nil},
			"empty":                {"", "ada", nil},
			"a number, not a text": {"", "ada", func(params, _ object) { params["requestState"] = 7 }},
		} {
			if g := s.answer(t, c.state, "accept", c.change, "User", c.user); at(g.failure(), "code") != -32602.0 {
				t.Errorf("%s: %s", about, g.text)
			}
		}
		s.Received(t, "POST /run/book", 0)
		s.Received(t, "POST /run/free", 0)
		// Members in another order are the same arguments.
		if g := s.answer(t, state, "accept", nil, "User", "ada"); at(g.result(), "structuredContent") != "booked" {
			t.Error(g.text)
		}
	})
}

// TestConnectOtherwise: clients that can't be asked get the link as a text, and no question.
func TestConnectOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, accounts := consenting(t)
		call := object{"name": "acme_book", "arguments": object{}}
		for about, g := range map[string]*got{
			"modern":           s.modern(t, "tools/call", call, "User", "ada"),
			"with forms only":  s.modernWith(t, object{"elicitation": object{"form": object{}}}, "tools/call", call, "User", "ada"),
			"with tasks":       s.modern(t, "tools/call", call, "User", "ada", asTaker, ""),
			"legacy":           s.legacy(t, "tools/call", call, "User", "ada"),
			"legacy, repeated": s.legacy(t, "tools/call", providertest.Merge(object{"requestState": "x", "inputResponses": object{"connect": object{"action": "accept"}}}, call), "User", "ada"),
		} {
			if !s.asksInText(g) || g.result()["inputRequests"] != nil || g.status != http.StatusOK {
				t.Errorf("%s: %s", about, g.text)
			}
		}
		list := func(user string) string { return s.modern(t, "tools/list", nil, "User", user).text }
		const note = "(asks the user to connect an account first)"
		if strings.Count(list("ada"), note) != 1 || !strings.Contains(list("ada"), `"acme_book"`) {
			t.Error(list("ada"))
		}
		accounts.Set("bob", true)
		if strings.Contains(list("bob"), note) {
			t.Error(list("bob"))
		}
		s.front.Options.Search = true
		if found := s.call(t, "search_skills", object{"query": "book"}, "User", "ada"); !strings.Contains(found.text, note) {
			t.Error(found.text)
		}
		if d := s.call(t, "describe_skill", object{"name": "acme_book"}, "User", "ada"); !strings.Contains(d.text, note) {
			t.Error(d.text)
		}
		// The skill that another tool calls is asked for, too.
		indirect := object{"name": "call_skill", "arguments": object{"name": "acme_book", "arguments": object{}}}
		g := s.modernWith(t, urls, "tools/call", indirect, "User", "ada")
		if g.result()["resultType"] != "input_required" {
			t.Fatal(g.text)
		}
		accounts.Set("ada", true)
		indirect["requestState"], indirect["inputResponses"] = g.result()["requestState"], object{"connect": object{"action": "accept"}}
		if g = s.modernWith(t, urls, "tools/call", indirect, "User", "ada"); at(g.result(), "structuredContent") != "booked" {
			t.Error(g.text)
		}
	})
}

// TestConnectForScopes: if the provider wants further scopes, the client is asked, and the repeated call waits until the user has consented to them.
// S384: the question has nothing that the provider says: the user would take it for the bridge's.
func TestConnectForScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, accounts := consenting(t)
		accounts.Set("ada", true)
		s.On("POST /run/book",
			providertest.Answer(http.StatusForbidden, object{"error": object{"code": "PERMISSION_DENIED", "message": "Open https://evil.example", "details": object{"required_scopes": []string{"pay"}}}}),
			providertest.Completed("e", "booked"))
		g := s.answer(t, nil, "", nil, "User", "ada")
		if at(g.result(), "inputRequests", "connect", "params", "url") != providertest.ConnectURL+"+pay" || strings.Contains(g.text, "evil") {
			t.Fatal(g.text)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { accounts.Set("ada", true, "pay") })
		if g = s.answer(t, g.result()["requestState"], "accept", nil, "User", "ada"); time.Since(began) != 3*time.Second || at(g.result(), "structuredContent") != "booked" {
			t.Errorf("after %v: %s", time.Since(began), g.text)
		}
		s.Received(t, "POST /run/book", 2)
	})
}
