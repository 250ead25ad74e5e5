package front

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Details returns the details of a failure: the provider's, else those of the Skill Sharing
// Protocol, section 8.3; nil: there are none.
func Details(f *run.Failure) jsontext.Value {
	var b details
	if said := f.ProviderSaid().Details; said != nil {
		if f.Kind == run.AuthRequired && f.By == run.Provider && said.Kind() == '{' {
			return requiredByProvider(said)
		}
		return said
	}
	switch a := f.Argument; {
	case f.Kind == run.VersionIncompatible && len(f.Violations) == 1:
		b.versions(&f.Violations[0])
	case f.Kind == run.NotSupported && len(f.Violations) == 1:
		b.contentType(&f.Violations[0])
	case f.Violations != nil:
		b.violations(f.Violations)
	case f.Limit != nil:
		return LimitDetails(f.Limit.Name, f.Limit.Max)
	case f.Demand != nil:
		b.demand(f.Demand)
	case f.Reach != nil:
		b.reach(f.Reach)
	case f.Timeout > 0:
		b.Open()
		b.Integer("timeout_ms", f.Timeout.Milliseconds())
		b.Optional("execution_id", f.ExecutionID)
		b.Close()
	case f.Kind == run.SkillNotFound && a != nil && a.Value != "":
		b.Open()
		b.Text("skill_id", a.Value)
		if len(a.Candidates) > 0 {
			b.Texts("candidates", a.Candidates)
		}
		b.Close()
	}
	return b.Buf
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
	var b details
	b.Open()
	b.Integer("suggested_delay_ms", again.After.Milliseconds())
	b.Integer("max_attempts", int64(again.Attempts))
	b.Close()
	return b.Buf
}

// details writes the details of a failure.
type details struct{ Writer }

// LimitDetails returns the details of a request that exceeds a limit.
func LimitDetails(option string, most int64) jsontext.Value {
	var b details
	b.Open()
	b.Text("limit", option)
	b.Integer("max", most)
	b.Close()
	return b.Buf
}

func (b *details) reach(r *run.Reach) {
	b.Open()
	if r.Failures > 0 {
		b.OpenMember("circuit_breaker")
		b.Integer("failures", int64(r.Failures))
		b.Text("last_failure", r.LastFailure)
		b.Text("state", "open")
		b.Close()
	}
	b.Text("reason", r.Reason)
	b.Optional("url", r.URL)
	b.Close()
}

// demand adds the details of AUTH_REQUIRED (section 8.3.2).
func (b *details) demand(d *run.Demand) {
	b.Open()
	b.Optional("authorization_url", d.AuthorizationURL)
	b.Optional("header", d.Header)
	if d.Parameters != nil {
		b.Text("instructions", d.Instructions)
		b.Raw("parameters", d.Parameters)
	}
	b.Optional("reason", d.Reason)
	b.Optional("required_auth_type", d.Type)
	b.Text("required_by", string(d.By))
	if d.Scopes != nil {
		b.TextMap("scopes", d.Scopes)
	}
	b.Optional("token_url", d.TokenURL)
	b.Close()
}

// requiredByProvider returns the provider's details of AUTH_REQUIRED with required_by set
// to provider. It replaces the provider's value: an agent would give the bridge credentials
// that it would not give the provider.
func requiredByProvider(said jsontext.Value) jsontext.Value {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(said, &members); err != nil {
		return said
	}
	members["required_by"] = jsontext.Value(`"provider"`)
	object, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return said
	}
	return object
}

// violations adds the violations of a document (section 8.3.1).
func (b *details) violations(list []run.Violation) {
	b.Buf = append(b.Buf, '[')
	for i := range list {
		v := &list[i]
		b.Open()
		b.Text("path", v.Path)
		b.Text("message", v.Message)
		b.Raw("expected", v.Expected)
		b.Raw("actual", v.Actual)
		b.Close()
	}
	b.CloseArray()
}

// contentType adds the details of a media type that the bridge can't send.
func (b *details) contentType(v *run.Violation) {
	b.Open()
	b.Text("reason", "unsupported_content_type")
	b.Text("path", v.Path)
	b.Raw("content_type", v.Actual)
	b.Close()
}

// versions adds the details of VERSION_INCOMPATIBLE (section 8.3.7).
func (b *details) versions(v *run.Violation) {
	b.Open()
	b.Raw("descriptor_version", v.Actual)
	b.Text("consumer_version", document.ConsumerVersion)
	b.Integer("supported_major", document.ConsumerMajor)
	b.Raw("supported_range", v.Expected)
	b.Close()
}
