package attacks_test

import (
	"net/http"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S60: what a mistake in a script sends to «purge» is refused and forgets nothing:
// «{}» alone forgets all documents.
func TestS60PurgeByMistake(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	c := testbed.StartCaddy(t, testbed.AdminAPI+testbed.Bridge(provider(p.URL(), "acme")))
	purge := func(body string) testbed.Answer {
		return c.With(testbed.Header("Content-Type", "application/json")).Send(http.MethodPost, c.Admin()+"/skill_bridge/purge", body)
	}
	mustComplete(t, c.Execute("acme.s.echo", nil))
	before := requests(p)
	for _, body := range []string{
		"", " \n", "null", "true", "0", `""`, `"acme"`, "[]", "[{}]", "{} junk", "{}{}", "{},", "{}\x00", "{", "}", `{"namespace":null}`, `{"namespace":""}`,
		`{"namespace":null,"skill_id":null}`, `{"namespace":"acme","skill_id":""}`, `{"namespace":"acme","skill_id":null}`, `{"skill_id":"s/echo"}`,
		`{"namespace":"acme"} {`, `{"namespace":"acme","namespace":"acme"}`, `{"Namespace":"acme"}`, `{"namespaces":"acme"}`, `{"namespace":["acme"]}`,
		`{"namespace":7}`, "\ufeff{}", "{\"namespace\":\"acme\xff\"}", "namespace=acme",
	} {
		if a := purge(body); a.Status != http.StatusBadRequest {
			t.Errorf("%q: %v", body, a)
		}
	}
	for _, body := range []string{`{"namespace":"none"}`, `{"namespace":"acme","skill_id":"s/none"}`} {
		if a := purge(body); a.Status != http.StatusNotFound {
			t.Errorf("%q: %v", body, a)
		}
	}
	mustComplete(t, c.Execute("acme.s.echo", nil))
	if n := requests(p) - before; n != 1 {
		t.Errorf("%d requests, not the invocation alone: documents were forgotten", n)
	}
	for _, body := range []string{"{}", " { }\n", `{"namespace":"acme"}`, `{"namespace":"acme","skill_id":"s/echo"}`} {
		before := requests(p)
		if a := purge(body); a.Status != http.StatusOK {
			t.Errorf("%q: %v", body, a)
		}
		mustComplete(t, c.Execute("acme.s.echo", nil))
		if n := requests(p) - before; n < 2 {
			t.Errorf("%q forgot nothing", body)
		}
	}
}
