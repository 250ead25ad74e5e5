package browse

import "html/template"

// Page is the data of the template of `browse`. All texts of providers in it
// are bounded, without control characters and characters that change the direction
// of text. A template must still escape them, as html/template does.
type Page struct {
	// Problem says why nothing is shown; empty: there is no problem.
	Problem string
	// Groups are the shown skills, by source.
	Groups []Group
	// Unavailable are the sources that could not be read.
	Unavailable []Unavailable
	// Skills is the number of all skills, including those that are not shown.
	Skills int
	// Hidden is the number of skills of which not even the name is shown: the sum of Hidden of all groups.
	Hidden int
	// Skill and Namespace are the values of skill and namespace in the query. If both are empty, all skills are shown.
	Skill, Namespace string
	// MCP has no Endpoint if the bridge does not serve MCP, or shows no skills.
	MCP MCP
	// Principal is the caller; empty: anonymous.
	Principal string
	// Nonce is the attribute nonce of the page's styles and scripts. The browser ignores those without it.
	Nonce string
	// Style and Script are the style and the script of the embedded template.
	Style  template.CSS
	Script template.JS
}

// Group has the skills of one source. Each source with skills has a group, even
// if none of its skills is shown.
type Group struct {
	// Namespace is empty for the skills that were configured one by one.
	Namespace string
	// Skills are the shown skills.
	Skills []Skill
	// Total is the number of the source's skills. Hidden of them are not in Skills. Named of them are in Skills without
	// the content of their descriptors, in the state listed.
	Total, Hidden, Named int
}

// Unavailable is a source that could not be read.
type Unavailable struct {
	Namespace, Reason string
}

// The values of [Skill.State].
const (
	stateAvailable        = "available"         // it can be called
	stateNeedsCredentials = "needs-credentials" //nolint:gosec // needs credentials that this bridge does not have, or may not send there
	stateFaulty           = "faulty"            // its descriptor is invalid
	stateIncompatible     = "incompatible"      // it needs a newer version of the protocol
	stateUnreadable       = "unreadable"        // its descriptor can't be read at the moment
	stateListed           = "listed"            // its descriptor was not read for this page
)

// Skill is one skill.
type Skill struct {
	// Name is the skill's name in calls. Title is the provider's name for it, if known.
	Name, Title, Namespace, Version, Description string
	// CapabilityType and Access are values of the Skill Sharing Protocol.
	CapabilityType, Access string
	// State is one of available, needs-credentials, faulty, incompatible, unreadable and listed.
	State string
	// Reason says why a skill is not available, and Faults what is wrong with its descriptor.
	Reason string
	Faults []Fault

	// The following fields are set only for skills that are available or need credentials.

	Inputs     []Input
	MoreInputs int // number of inputs that are not in Inputs
	// OutputType is a media type.
	OutputType, OutputDescription string
	Auth                          Auth
	Tags                          []string
	Provider                      string
	ProviderLink, Documentation   Link
	// A2A has no Endpoint if the bridge does not serve A2A.
	A2A A2A
}

// Fault is an error in a descriptor.
type Fault struct {
	Path, Message string // Path is a JSON Pointer
}

// Input is one input of a skill.
type Input struct {
	Name, Type, Description string
	Required                bool
	HasDefault              bool
	Default                 string   // JSON
	Choices                 []string // the allowed values in JSON, if the schema lists them
}

// Auth is how the bridge has to authenticate to the provider.
type Auth struct {
	Type string // none, api_key, oauth2 or custom
	// Header is the header of an API key. Scopes are the OAuth 2.0 scopes.
	Header string
	Scopes []string
	// Description and Instructions are the provider's texts.
	Description, Instructions string
}

// Link is a link from a provider. Its scheme is https or http.
type Link struct {
	URL  string // empty: there is none
	Host string // the host of the URL, in ASCII
}

// examplePage returns sample data for testing templates, with elements in each list.
func examplePage() *Page {
	at := Link{"https://example.com/", "example.com"}
	return &Page{
		Problem: "example", Skills: 5, Hidden: 1, Skill: "example", Namespace: "example", Principal: "example", Nonce: "example",
		Unavailable: []Unavailable{{"example", "example"}},
		MCP:         MCP{at.URL, []Client{{"example", "example", "{}"}}},
		Groups: []Group{{Namespace: "example", Total: 5, Hidden: 1, Named: 1, Skills: []Skill{
			{
				Name: "example", State: stateAvailable, MoreInputs: 1, Tags: []string{"example"}, ProviderLink: at, Documentation: at,
				A2A:    A2A{at.URL, at.URL, "curl"},
				Inputs: []Input{{Name: "example", Required: true, HasDefault: true, Default: "1", Choices: []string{"1"}}},
				Auth:   Auth{Type: "oauth2", Scopes: []string{"example"}},
			},
			{Name: "closed", State: stateNeedsCredentials, Reason: "example", Auth: Auth{Type: "api_key", Header: "example"}},
			{Name: "other", State: stateFaulty, Reason: "example", Faults: []Fault{{"/example", "example"}}},
			{Name: "named", State: stateListed},
		}}},
	}
}
