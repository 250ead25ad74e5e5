package demo_test

import (
	"encoding/json" // for Caddy's own types
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

func adapt(block string) (string, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	config, _, err := adapter.Adapt([]byte(":8081 {\n\trespond no\n\tskill_bridge_demo "+block+"\n}\n"), map[string]any{"filename": "Test.Caddyfile"})
	return string(config), err
}

func TestCaddyfile(t *testing.T) {
	config, err := adapt("{\n\tapi_key key\n\tclient a b\n\trun_time 1500ms\n}")
	if err != nil {
		t.Fatal(err)
	}
	const want = `"handle":[{"api_key":"key","client":{"id":"a","secret":"b"},` +
		`"handler":"skill_bridge_demo","run_time":1500000000},{"body":"no","handler":"static_response"}]`
	if !strings.Contains(config, want) {
		t.Errorf("config = %s, want it to contain %s", config, want)
	}
}

func TestCaddyfileErrors(t *testing.T) {
	for block, want := range map[string]string{
		"/x y":                             `skill_bridge_demo takes no argument, but has "y"`,
		"{\n\tapi_key\n}":                  "api_key takes one value (arguments given: 0; {$NAME}",
		"{\n\tapi_key a\n\tapi_key b\n}":   "api_key is given twice",
		"{\n\tclient a\n}":                 "client takes an id and a secret (arguments given: 1)",
		"{\n\tclient a b\n\tclient c d\n}": "client is given twice",
		"{\n\trun_time\n}":                 "run_time takes a duration, such as 30s (arguments given: 0; {$NAME}",
		"{\n\trun_time soon\n}":            `run_time "soon" is not a duration`,
		"{\n\trun_time 0s\n}":              `run_time "0s" has to be longer than 0`,
		"{\n\trun_time -1s\n}":             `run_time "-1s" has to be longer than 0`,
		"{\n\trun_time 16s\n}":             "run_time 16s is out of range",
		"{\n\trun_time 1s\n\tkey value\n}": `unknown option "key" of skill_bridge_demo: it has api_key, client, run_time`,
	} {
		_, err := adapt(block)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Test.Caddyfile:") {
			t.Errorf("%q: error %v, want %q with file and line", block, err, want)
		}
	}
}

func TestConfigurationIsValidated(t *testing.T) {
	valid := map[string]string{
		"api_key": `"key"`,
		"client":  `{"id": "a", "secret": "b"}`,
	}
	for name, test := range map[string]struct{ option, value, want string }{
		"valid":              {"api_key", valid["api_key"], ""},
		"no key":             {"api_key", `""`, "are required"},
		"key: unset":         {"api_key", `"{env.SKILL_BRIDGE_DEMO_UNSET}"`, "api_key: "},
		"client: no id":      {"client", `{"secret": "b"}`, "are required"},
		"client: no secret":  {"client", `{"id": "a"}`, "are required"},
		"client: unset":      {"client", `{"id": "a", "secret": "{env.SKILL_BRIDGE_DEMO_UNSET}"}`, "client: secret: "},
		"run time: negative": {"run_time", `-1`, "run_time -1ns is out of range"},
		"run time: too long": {"run_time", `15000000001`, "is out of range"},
		"unknown option":     {"key", `1`, "key"},
	} {
		t.Run(name, func(t *testing.T) {
			var options strings.Builder
			for option, value := range valid {
				if option != test.option {
					options.WriteString(`, "` + option + `": ` + value)
				}
			}
			err := validate(`{"handler": "skill_bridge_demo", "` + test.option + `": ` + test.value + options.String() + `}`)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("error %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func validate(handler string) error {
	var config caddy.Config
	if err := json.Unmarshal([]byte(`{
		"logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
		"apps": {"http": {"servers": {"demo": {
			"listen": ["127.0.0.1:0"],
			"automatic_https": {"disable": true},
			"routes": [{"handle": [`+handler+`]}]
		}}}}
	}`), &config); err != nil {
		return err
	}
	return caddy.Validate(&config)
}
