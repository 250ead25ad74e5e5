package a2a_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// Inputs with names that models do not take have others in the schemas of cards and questions. Questions, failures and messages use them as well.
func TestSafeNamesOfInputs(t *testing.T) {
	const size = "gr__e_d353a2"
	input := func(name, kind string, more object) object {
		return providertest.Merge(providertest.Input(name, kind, object{"required": true}), more)
	}
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t, func(a *agent) {
			a.skills = []object{skill("cut", input("größe", "integer", nil), input("länge", "integer", nil)), skill("scan", input("bild[0]", "string", object{"schema": object{"contentEncoding": "base64"}}))}
		})
		of := `"metadata":{"skill":"acme.cut"}`
		asks := d.task + ".status.state=" + d.state("input-required") + ";"
		question := d.task + ".status.message.parts.1.data"
		got := a.call(t, d.send, d.params("", data(d.version, `{"`+size+`":"wide"}`), of))
		got.check(t, "error.code=-32602;error.message~argument \""+size+"\" must be an integer")
		got = a.call(t, d.send, d.params("", data(d.version, `{"`+size+`":2}`), of))
		length := got.at(question + ".missing.0")
		got.check(t, asks+question+".missing.#=1;"+question+".inputSchema.properties."+length+".title=länge;"+d.task+".status.message.parts.0.text~ "+length+" (integer)")
		id := got.at(d.task + ".id")
		again := a.call(t, d.send, d.params(id, data(d.version, `{"`+length+`":"long"}`), ""))
		again.check(t, asks+question+`.missing=["`+length+`"];`+d.task+`.status.message.parts.0.text~argument "`+length+`" must be an integer`)
		again = a.call(t, d.send, d.params(id, data(d.version, `{"länge":3}`), "")) // the value that did not fit is gone
		again.check(t, d.task+`.status.state=`+d.state("completed")+`;`+d.task+`.artifacts.0.parts.0.data={"größe":2,"länge":3}`)
		if d.version == "0.1" {
			return
		}
		a.call(t, d.send, d.params("", text(d.version, `{"`+size+`":2,"`+length+`":3}`), of)).check(t, d.task+".status.state="+d.state("completed"))
		file := strings.ReplaceAll(map[string]string{"1.0": `{"raw":"AA==","metadata":M}`, "0.3": `{"kind":"file","file":{"bytes":"AA=="},"metadata":M}`}[d.version], "M", `{"input":"bild_0__c9659f"}`)
		a.call(t, d.send, d.params("", file, `"metadata":{"skill":"acme.scan"}`)).check(t, d.task+".status.state="+d.state("completed"))
		// A caller with the names of the descriptor is asked by those.
		got = a.call(t, d.send, d.params("", data(d.version, `{"größe":2}`), of))
		got.check(t, asks+question+`.missing=["länge"]`)
		a.call(t, d.send, d.params(got.at(d.task+".id"), text(d.version, "3"), "")).check(t, d.task+".status.state="+d.state("completed"))
	})
}
