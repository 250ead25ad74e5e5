package document

import (
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Descriptor is a Skill Descriptor: all that a provider publishes about one
// skill (Skill Sharing Protocol, section 3). Use [ParseDescriptor] to read one:
// it validates first. It must not be copied.
type Descriptor struct {
	Protocol         ProtocolVersion `json:"protocol"`
	ID               string          `json:"id"`
	Name             string          `json:"name"`
	Version          string          `json:"version"`
	CapabilityType   CapabilityType  `json:"capability_type"`
	Description      string          `json:"description"`
	Provider         Provider        `json:"provider"`
	Endpoint         Endpoint        `json:"endpoint"`
	Inputs           []Parameter     `json:"inputs"`
	Output           Output          `json:"output"`
	Auth             Auth            `json:"auth"`
	Access           AccessPolicy    `json:"access"`
	Tags             []string        `json:"tags,omitzero"`
	DocumentationURL string          `json:"documentation_url,omitzero"`
	CreatedAt        string          `json:"created_at,omitzero"`
	UpdatedAt        string          `json:"updated_at,omitzero"`

	renderings renderings
}

// Index is a Skill Index: what a provider serves under [WellKnownPath]
// (section 4.3.2), or what a registry answers.
type Index struct {
	Protocol ProtocolVersion `json:"protocol"`
	Provider Provider        `json:"provider"`
	Skills   []IndexEntry    `json:"skills"`

	// LeftOut are the first entries that can't be used, and so are not in Skills.
	LeftOut []LeftOut `json:"-"`
	// LeftOutCount is how many such entries there are.
	LeftOutCount int `json:"-"`
}

// LeftOut is an entry of an index, or of a registry's answer, that can't be used.
type LeftOut struct {
	ID    string // empty: it has none
	Fault run.Violation
	More  []run.Violation // its other faults
}

// IndexEntry is the summary of one skill in an [Index] (section 4.3.3).
type IndexEntry struct {
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	CapabilityType CapabilityType `json:"capability_type"`
	Description    string         `json:"description"`
	DescriptorURL  string         `json:"descriptor_url"`
	Access         AccessPolicy   `json:"access"`
	Version        string         `json:"version"`
	Unknown        jsontext.Value `json:",embed"`
}

// ProtocolVersion says which version of the protocol a document follows
// (section 3.5.1).
type ProtocolVersion struct {
	Version      string `json:"version"`
	ChangelogURL string `json:"changelog_url,omitzero"`
}

// Provider says who offers a skill.
type Provider struct {
	Name    string `json:"name"`
	URL     string `json:"url,omitzero"`
	Contact string `json:"contact,omitzero"`
}

// Parameter is a ParameterDefinition (section 3.5.2).
type Parameter struct {
	Name        string         `json:"name"`
	Type        string         `json:"type"`
	Description string         `json:"description"`
	Required    bool           `json:"required"`
	Default     jsontext.Value `json:"default,omitzero"` // nil: none; "null" is a default too
	Schema      jsontext.Value `json:"schema,omitzero"`  // nil: none
	Unknown     jsontext.Value `json:",embed"`
}

// Endpoint is an InvocationEndpoint (section 3.5.3).
type Endpoint struct {
	URL         string         `json:"url"`
	Method      string         `json:"method"`
	ContentType string         `json:"content_type,omitzero"`
	StatusURL   string         `json:"status_url,omitzero"`
	ResultURL   string         `json:"result_url,omitzero"`
	TimeoutMS   float64        `json:"timeout_ms,omitzero"` // milliseconds; 0: not stated
	Retry       *EndpointRetry `json:"retry,omitzero"`      // nil: the provider does not consent to retries
}

// EndpointRetry is the provider's consent to repeat an invocation.
type EndpointRetry struct {
	MaxAttempts float64 `json:"max_attempts"` // attempts in all, the first one included
	BackoffMS   float64 `json:"backoff_ms"`   // milliseconds before the first repetition
}

// Output is an OutputDefinition (section 3.5.4).
type Output struct {
	ContentType string         `json:"content_type"`
	Schema      jsontext.Value `json:"schema,omitzero"`
	Description string         `json:"description,omitzero"`
}

// Auth is an AuthConfig: how to authenticate when invoking a skill
// (section 3.5.5).
type Auth struct {
	Type        AuthType    `json:"type"`
	Description string      `json:"description,omitzero"`
	Header      string      `json:"header,omitzero"`
	OAuth2      *OAuth2     `json:"oauth2,omitzero"`
	Custom      *CustomAuth `json:"custom,omitzero"`
}

// OAuth2 is the OAuth 2.0 configuration of an [Auth].
type OAuth2 struct {
	AuthorizationURL string            `json:"authorization_url"`
	TokenURL         string            `json:"token_url"`
	Scopes           map[string]string `json:"scopes"` // name to description
}

// CustomAuth describes, in words, an authentication that only this provider has.
type CustomAuth struct {
	Instructions string      `json:"instructions"`
	Parameters   []Parameter `json:"parameters"`
}

// CapabilityType classifies skills (section 3.4.1).
type CapabilityType string

// The capability types of the protocol.
const (
	Plugin    CapabilityType = "plugin"
	API       CapabilityType = "api"
	Knowledge CapabilityType = "knowledge"
	Task      CapabilityType = "task"
)

// CapabilityTypes are all of them.
var CapabilityTypes = [...]CapabilityType{API, Knowledge, Plugin, Task}

// AccessPolicy says who may see and use a skill (section 3.4.2).
type AccessPolicy string

// The access policies of the protocol.
const (
	Public     AccessPolicy = "public"
	Restricted AccessPolicy = "restricted"
	Private    AccessPolicy = "private"
)

// AuthType names an authentication method (section 3.4.3).
type AuthType string

// The authentication methods of the protocol.
const (
	AuthAPIKey AuthType = "api_key"
	AuthOAuth2 AuthType = "oauth2"
	AuthCustom AuthType = "custom"
	AuthNone   AuthType = "none"
)

// WellKnownPath is where a provider serves its index (section 4.3.1).
const WellKnownPath = "/.well-known/skill-sharing"

// ConsumerVersion is the version of the Skill Sharing Protocol that this
// package speaks. Documents of a newer MAJOR are refused (section 6.3).
const ConsumerVersion = "1.0.0"

// ConsumerMajor is the MAJOR number of [ConsumerVersion].
const ConsumerMajor = 1

// Milliseconds converts a number of milliseconds in a document to a duration.
// It limits the result, so that it does not overflow.
func Milliseconds(ms float64) time.Duration {
	if math.IsNaN(ms) || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, float64(math.MaxInt64/int64(time.Millisecond)/2)) * float64(time.Millisecond))
}

// ApiKeyHeader is the header that carries an API key. Section 3.5.5 names no
// default, but all its examples use X-API-Key.
func (a *Auth) ApiKeyHeader() string {
	if a.Header != "" {
		return a.Header
	}
	return "X-API-Key"
}
