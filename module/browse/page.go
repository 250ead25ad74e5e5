package browse

import "html/template"

// Page is what the template of `browse` is executed with. All texts of
// providers in it are bounded and have neither control characters nor those that
// change the direction of text; a template must go on to treat them as text.
type Page struct {
	// Problem says in words why nothing is shown; empty: there is none.
	Problem string
	// Groups are the skills that are shown, by the sources they are from.
	Groups []Group
	// Unavailable are the sources that could not be read.
	Unavailable []Unavailable
	// Skills is how many skills there are, also if not all are shown.
	Skills int
	// Hidden is how many of them are not shown, not even by their names: the sum of those of the groups.
	Hidden int
	// Skill is the one that the query ?skill= asks for, and Namespace that of ?namespace=; empty: all are shown.
	Skill, Namespace string
	// Principal is the caller; empty: anonymous.
	Principal string
	// Nonce is what a style or script of the page has to carry to have an effect.
	Nonce string
	// Style and Script are those of the embedded template.
	Style  template.CSS
	Script template.JS
}

// Group is the skills of one source. Each source with skills has one, even
// where there is no room for any of them.
type Group struct {
	// Namespace is empty for the skills that were configured one by one.
	Namespace string
	// Skills are those that are shown.
	Skills []Skill
	// Total is how many there are. Hidden of them are not among Skills; Named of them are there only by their names, in
	// the state listed.
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
	stateListed           = "listed"            // its descriptor was not looked at
)

// Skill is one skill.
type Skill struct {
	// Name is what a call has to say; Title is how the provider calls the skill, if that is known.
	Name, Title, Namespace, Version, Description string
	// CapabilityType and Access are the protocol's words.
	CapabilityType, Access string
	// State is one of available, needs-credentials, faulty, incompatible, unreadable and listed.
	State string
	// Reason says why a skill is not available, and Faults what is wrong with its descriptor.
	Reason string
	Faults []Fault

	// All that follows is set for skills that are available or need credentials.

	Inputs     []Input
	MoreInputs int // that are not among Inputs
	// OutputType is a media type.
	OutputType, OutputDescription string
	Auth                          Auth
	Tags                          []string
	Provider                      string
	ProviderLink, Documentation   Link
}

// Fault is what is wrong at one place of a descriptor.
type Fault struct {
	Path, Message string // Path is a JSON Pointer
}

// Input is one input of a skill.
type Input struct {
	Name, Type, Description string
	Required                bool
	HasDefault              bool
	Default                 string   // JSON
	Choices                 []string // JSON; the values that are allowed, if they are listed
}

// Auth is how the bridge has to authenticate to the provider.
type Auth struct {
	Type string // none, api_key, oauth2 or custom
	// Header is that of an API key, Scopes are those of OAuth 2.0.
	Header string
	Scopes []string
	// Description and Instructions are the provider's words.
	Description, Instructions string
}

// Link is a link that a provider has given: https or http, and nothing else.
type Link struct {
	URL  string // empty: there is none
	Host string // where it leads to, in ASCII
}

// examplePage has something of everything that a template may ask for.
func examplePage() *Page {
	at := Link{"https://example.com/", "example.com"}
	return &Page{
		Problem: "example", Skills: 5, Hidden: 1, Skill: "example", Namespace: "example", Principal: "example", Nonce: "example",
		Unavailable: []Unavailable{{"example", "example"}},
		Groups: []Group{{Namespace: "example", Total: 5, Hidden: 1, Named: 1, Skills: []Skill{
			{
				Name: "example", State: stateAvailable, MoreInputs: 1, Tags: []string{"example"}, ProviderLink: at, Documentation: at,
				Inputs: []Input{{Name: "example", Required: true, HasDefault: true, Default: "1", Choices: []string{"1"}}},
				Auth:   Auth{Type: "oauth2", Scopes: []string{"example"}},
			},
			{Name: "closed", State: stateNeedsCredentials, Reason: "example", Auth: Auth{Type: "api_key", Header: "example"}},
			{Name: "other", State: stateFaulty, Reason: "example", Faults: []Fault{{"/example", "example"}}},
			{Name: "named", State: stateListed},
		}}},
	}
}
