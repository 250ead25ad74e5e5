package bridge_test

import (
	"encoding/json" // Caddy's config is made for encoding/json
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// validate does what "caddy validate" does with a Caddyfile.
func validate(t *testing.T, caddyfile string) error {
	t.Helper()
	text, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	return validateJSON(t, string(text))
}

func validateJSON(t *testing.T, text string) error {
	t.Helper()
	config := new(caddy.Config)
	if err := json.Unmarshal([]byte(text), config); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(config)
}

const siteStart = `{
	admin off
	auto_https off
	persist_config off
}

:0 {
	skill_bridge /rpc {
`

const siteEnd = `	}
}
`

func TestValidate(t *testing.T) {
	t.Setenv("SKILL_BRIDGE_TEST_KEY", "not a secret")
	for name, tc := range map[string]struct{ options, want string }{
		"nothing": {"", ""},
		"a page without the method that it calls": {"a2a\nbrowse\n", "browse needs the option rpc"},
		"a page beside A2A":                       {"a2a\nrpc\nbrowse\n", ""},
		"good": {`
		provider https://skills.example.com {
			credentials api_key {env.SKILL_BRIDGE_TEST_KEY}
			discovery_credentials headers {
				X-Tenant {env.SKILL_BRIDGE_TEST_KEY}
			}
			transport http {
				tls_server_name internal
			}
		}
		skill a https://example.com/a.json
		registry https://example.org
		require_principal
		allow_networks private_ranges
		limits {
			runs 100 10
		}
		circuit_breaker off
`, ""},
		"secret of a provider that requires a principal": {`
		provider https://skills.example.com {
			credentials api_key {env.SKILL_BRIDGE_TEST_KEY}
			require_principal
		}
		provider https://open.example.com
`, ""},
		"secret that is not there": {`
		provider https://skills.example.com {
			credentials api_key {env.SKILL_BRIDGE_TEST_UNSET}
		}
		allow_anonymous
`, "environment variable SKILL_BRIDGE_TEST_UNSET is not set where Caddy runs, at Caddyfile:11"},
		"secret of an oauth2 block that is not there": {`
		provider https://skills.example.com
		skill one https://example.com/one.json {
			trust example.org
			credentials oauth2 {
				client_id {file./no/such/file}
				client_secret {env.SKILL_BRIDGE_TEST_KEY}
			}
		}
		allow_anonymous
`, "file /no/such/file: no such file or directory, at Caddyfile:13"},
		"keys in a file whose variable is not there": {`
		callers_file {env.SKILL_BRIDGE_TEST_UNSET}
`, "callers_file: placeholder {env.SKILL_BRIDGE_TEST_UNSET} is empty: environment variable SKILL_BRIDGE_TEST_UNSET is not set where Caddy runs, at Caddyfile:10"},
		"keys in a file that is not there": {`
		callers_file /no/such/file
`, "no such file or directory; make it with caddy skill-bridge hash-key, at Caddyfile:10"},
		"secret of call-backs that is not there": {`
		rpc
		webhooks {
			secrets {env.SKILL_BRIDGE_TEST_UNSET}
		}
`, "skill_bridge: webhooks.secrets[0]: placeholder {env.SKILL_BRIDGE_TEST_UNSET} is empty: environment variable SKILL_BRIDGE_TEST_UNSET is not set where Caddy runs, at Caddyfile:12"},
		"webhooks that nobody can set":         {"\nmcp\nwebhooks\n", "webhooks are for the Skills Protocol and A2A, which are not served: add rpc or a2a, or remove webhooks, at Caddyfile:11"},
		"secrets that sign nothing":            {"\na2a\nwebhooks {\nsecrets {env.SKILL_BRIDGE_TEST_KEY}\n}\n", "secrets sign only what is sent about runs of the Skills Protocol, which is not served: add rpc, or remove secrets, at Caddyfile:12"},
		"a secret of another form":             {"\nwebhooks {\nsecrets {env.SKILL_BRIDGE_TEST_KEY}\n}\n", `webhooks.secrets[0]: must be "whsec_" followed by 24 to 64 random bytes in base64, at Caddyfile:11`},
		"more secrets than a request can have": {"\nwebhooks {\nsecrets a b c d e\n}\n", "there are more than 4 secrets, at Caddyfile:11"},
		"webhooks of A2A":                      {"\na2a\nrpc\nwebhooks {\nallow_ports any\n}\n", ""},
		"webhooks of the Skills Protocol":      {"\nwebhooks\n", ""},
		"the option that webhooks replaces":    {"\nnotifications\n", "unknown option \"notifications\" of skill_bridge"},
		"secret for everyone": {`
		provider https://skills.example.com {
			credentials api_key {env.SKILL_BRIDGE_TEST_KEY}
		}
`, "at Caddyfile:11"},
		"secret beside one that is not for everyone": {`
		provider https://skills.example.com {
			credentials api_key {env.SKILL_BRIDGE_TEST_KEY}
			require_principal
		}
		skill a https://example.com/a.json {
			credentials api_key {env.SKILL_BRIDGE_TEST_KEY}
		}
`, "at Caddyfile:15"},
		"limit out of range": {`
		limits {
			runs 10
			memory 1MiB
		}
`, "memory 1MiB is too small: the minimum is 28MiB, so that the largest answer to a batch has room, at Caddyfile:12"},
		"documents that are larger than answers": {`
		limits {
			document_size 2MiB
		}
		max_response_size 1MiB
`, "document_size 2MiB is more than max_response_size, which is 1MiB, so it has no effect, at Caddyfile:11"},
		"documents that are larger than answers are by default": {`
		limits {
			document_size 20MiB
		}
`, "document_size 20MiB is more than max_response_size, which is 10MiB by default, so it has no effect, at Caddyfile:11"},
		"ttl over its maximum": {`
		cache {
			max_ttl 1h
			ttl 61m
		}
`, "ttl 1h1m0s is longer than max_ttl, which is 1h0m0s, so it has no effect, at Caddyfile:12"},
		"ttl over the default maximum": {`
		cache {
			ttl 25h
		}
`, "ttl 25h0m0s is longer than max_ttl, which is 24h0m0s by default, so it has no effect, at Caddyfile:11"},
		"ttl in days": {`
		cache {
			max_ttl 3d
			ttl 30d
		}
`, "ttl 30d is longer than max_ttl, which is 3d, so it has no effect, at Caddyfile:12"},
		"keep in days": {`
		keep 100d
`, "keep 100d is too long: the maximum is 90d, at Caddyfile:10"},
		"maxima below the defaults": {`
		max_response_size 1MiB
		cache {
			max_ttl 1m
		}
`, ""},
		"transport that can't be made": {`
		transport http {
			versions 7
		}
`, "unsupported HTTP version"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(t, siteStart+tc.options+siteEnd)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
