package front

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Details returns the details of a failure: the provider's, else those of the Skill Sharing
// Protocol, section 8.3; nil: there are none.
func Details(f *run.Failure) jsontext.Value {
	if said := f.ProviderSaid().Details; said != nil {
		connects := f.Demand != nil && f.Demand.ConnectURL != "" || jsonrpc.ValueOf(said, "connect_url") != nil
		if (connects || f.Kind == run.AuthRequired && f.By == run.Provider) && said.Kind() == '{' {
			return requiredByProvider(said, f.Demand)
		}
		return said
	}
	switch a := f.Argument; {
	case f.Kind == run.VersionIncompatible && len(f.Violations) == 1:
		return versions(&f.Violations[0])
	case f.Kind == run.NotSupported && len(f.Violations) == 1:
		return contentType(&f.Violations[0])
	case f.Violations != nil:
		return violations(f.Violations)
	case f.Limit != nil:
		return LimitDetails(f.Limit.Name, f.Limit.Max)
	case f.Demand != nil:
		return demand(f.Demand)
	case f.Reach != nil:
		return reach(f.Reach)
	case f.Timeout > 0:
		return Object(func(w *Writer) {
			w.Integer("timeout_ms", f.Timeout.Milliseconds())
			w.Optional("execution_id", f.ExecutionID)
		})
	case f.Kind == run.SkillNotFound && a != nil && a.Value != "":
		return Object(func(w *Writer) {
			w.Text("skill_id", a.Value)
			if len(a.Candidates) > 0 {
				w.Texts("candidates", a.Candidates)
			}
		})
	}
	return nil
}

// Retry returns the suggestion to try again (Skill Sharing Protocol, section 8.2), the
// provider's or else the bridge's; nil: there is none.
func Retry(f *run.Failure) jsontext.Value {
	if said := f.ProviderSaid().Retry; said != nil {
		return said
	}
	again := f.RetryHint()
	if again == nil {
		return nil
	}
	return Object(func(w *Writer) {
		w.Integer("suggested_delay_ms", again.After.Milliseconds())
		w.Integer("max_attempts", int64(again.Attempts))
	})
}

// LimitDetails returns the details of a request that exceeds a limit.
func LimitDetails(option string, most int64) jsontext.Value {
	return Object(func(w *Writer) {
		w.Text("limit", option)
		w.Integer("max", most)
	})
}

func reach(r *run.Reach) jsontext.Value {
	return Object(func(w *Writer) {
		if r.Failures > 0 {
			w.OpenMember("circuit_breaker")
			w.Integer("failures", int64(r.Failures))
			w.Text("last_failure", r.LastFailure)
			w.Text("state", "open")
			w.Close()
		}
		w.Text("reason", r.Reason)
		w.Optional("url", r.URL)
	})
}

// demand returns the details of AUTH_REQUIRED (section 8.3.2).
func demand(d *run.Demand) jsontext.Value {
	return Object(func(w *Writer) {
		w.Optional("authorization_url", d.AuthorizationURL)
		w.Optional("connect_url", d.ConnectURL)
		w.Optional("header", d.Header)
		if d.Parameters != nil {
			w.Text("instructions", d.Instructions)
			w.Raw("parameters", d.Parameters)
		}
		w.Optional("reason", d.Reason)
		w.Optional("required_auth_type", d.Type)
		w.Text("required_by", string(d.By))
		if d.Scopes != nil {
			w.TextMap("scopes", d.Scopes)
		}
		w.Optional("token_url", d.TokenURL)
	})
}

// requiredByProvider returns the provider's details of AUTH_REQUIRED or PERMISSION_DENIED, or with a link of its own, with required_by set
// to provider, and with the link of the bridge or none. It replaces the provider's value: an agent would give the bridge credentials
// that it would not give the provider.
func requiredByProvider(said jsontext.Value, d *run.Demand) jsontext.Value {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(said, &members); err != nil {
		return said
	}
	members["required_by"] = jsontext.Value(`"provider"`)
	if d != nil && d.ConnectURL != "" {
		members["connect_url"] = AppendText(nil, d.ConnectURL)
	} else {
		delete(members, "connect_url") // users trust such a link
	}
	object, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return said
	}
	return object
}

// violations returns the violations of a document (section 8.3.1).
func violations(list []run.Violation) jsontext.Value {
	w := Writer{Buf: []byte{'['}}
	for i := range list {
		v := &list[i]
		w.Open()
		w.Text("path", v.Path)
		w.Text("message", v.Message)
		w.Raw("expected", v.Expected)
		w.Raw("actual", v.Actual)
		w.Close()
	}
	w.CloseArray()
	return w.Buf
}

// contentType returns the details of a media type that the bridge can't send.
func contentType(v *run.Violation) jsontext.Value {
	return Object(func(w *Writer) {
		w.Text("reason", "unsupported_content_type")
		w.Text("path", v.Path)
		w.Raw("content_type", v.Actual)
	})
}

// versions returns the details of VERSION_INCOMPATIBLE (section 8.3.7).
func versions(v *run.Violation) jsontext.Value {
	return Object(func(w *Writer) {
		w.Raw("descriptor_version", v.Actual)
		w.Text("consumer_version", document.ConsumerVersion)
		w.Integer("supported_major", document.ConsumerMajor)
		w.Raw("supported_range", v.Expected)
	})
}
