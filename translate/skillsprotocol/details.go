package skillsprotocol

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Details returns the details of a failure: the provider's, else those of the Skill Sharing
// Protocol, section 8.3; nil: there are none.
func Details(f *run.Failure) jsontext.Value {
	var b builder
	if said := f.ProviderSaid().Details; said != nil {
		if f.Kind == run.AuthRequired && f.By == run.Provider && said.Kind() == '{' {
			return requiredByProvider(said)
		}
		return said
	}
	switch a := f.Argument; {
	case f.Kind == run.VersionIncompatible && len(f.Violations) == 1:
		b.versions(&f.Violations[0])
	case f.Violations != nil:
		b.violations(f.Violations)
	case f.Limit != nil:
		return limitDetails(f.Limit.Name, f.Limit.Max)
	case f.Demand != nil:
		b.demand(f.Demand)
	case f.Reach != nil:
		b.reach(f.Reach)
	case f.Timeout > 0:
		b.open()
		b.integer("timeout_ms", f.Timeout.Milliseconds())
		b.optional("execution_id", f.ExecutionID)
		b.close()
	case f.Kind == run.SkillNotFound && a != nil && a.Value != "":
		b.open()
		b.text("skill_id", a.Value)
		if len(a.Candidates) > 0 {
			b.texts("candidates", a.Candidates)
		}
		b.close()
	}
	return b.buf
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
	var b builder
	b.open()
	b.integer("suggested_delay_ms", again.After.Milliseconds())
	b.integer("max_attempts", int64(again.Attempts))
	b.close()
	return b.buf
}

// Param returns the name of the param for an argument.
func Param(a *run.Argument) string {
	switch a.Field {
	case run.FieldSkill:
		return paramNames[paramName]
	case run.FieldVersion:
		return paramNames[paramVersion]
	case run.FieldInputs:
		return paramNames[paramArgs]
	}
	return a.Name
}

// limitDetails returns the details of a request that exceeds a limit.
func limitDetails(option string, most int64) jsontext.Value {
	var b builder
	b.open()
	b.text("limit", option)
	b.integer("max", most)
	b.close()
	return b.buf
}

func (b *builder) reach(r *run.Reach) {
	b.open()
	if r.Failures > 0 {
		b.openMember("circuit_breaker")
		b.integer("failures", int64(r.Failures))
		b.text("last_failure", r.LastFailure)
		b.text("state", "open")
		b.close()
	}
	b.text("reason", r.Reason)
	b.optional("url", r.URL)
	b.close()
}

// demand adds the details of AUTH_REQUIRED (section 8.3.2).
func (b *builder) demand(d *run.Demand) {
	b.open()
	b.optional("authorization_url", d.AuthorizationURL)
	b.optional("header", d.Header)
	if d.Parameters != nil {
		b.text("instructions", d.Instructions)
		b.raw("parameters", d.Parameters)
	}
	b.optional("reason", d.Reason)
	b.optional("required_auth_type", d.Type)
	b.text("required_by", string(d.By))
	if d.Scopes != nil {
		b.scopes(d.Scopes)
	}
	b.optional("token_url", d.TokenURL)
	b.close()
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
func (b *builder) violations(list []run.Violation) {
	b.buf = append(b.buf, '[')
	for i := range list {
		v := &list[i]
		b.open()
		b.text("path", v.Path)
		b.text("message", v.Message)
		b.raw("expected", v.Expected)
		b.raw("actual", v.Actual)
		b.close()
	}
	b.closeArray()
}

// versions adds the details of VERSION_INCOMPATIBLE (section 8.3.7).
func (b *builder) versions(v *run.Violation) {
	b.open()
	b.raw("descriptor_version", v.Actual)
	b.text("consumer_version", document.ConsumerVersion)
	b.integer("supported_major", document.ConsumerMajor)
	b.raw("supported_range", v.Expected)
	b.close()
}
