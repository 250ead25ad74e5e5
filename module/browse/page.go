package browse

import (
	"html/template"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Page is the data of the template of `browse`. All texts of providers in it
// are bounded, without control characters and characters that change the direction
// of text, but for those of descriptors, for which the template has the functions name, text and link. A template must still escape them, as html/template does.
type Page struct {
	// Name is the name of the bridge: the option name of the handler, else the host of the request.
	Name string
	// Endpoint is the URL to which agents POST; empty: it can't be known.
	Endpoint string
	// Problem says why nothing is shown; empty: there is no problem.
	Problem string
	// Groups are the shown skills, by source, or the results of a search.
	Groups []Group
	// Sources are all sources with skills that the caller may see.
	Sources []Source
	// Unavailable are the sources that could not be read.
	Unavailable []Unavailable
	// Skills is the number of all skills, including those that are not shown. Found is how many of them the filter selects.
	Skills, Found int
	// Hidden is how many of the selected skills are not shown: the sum of Hidden of all groups.
	Hidden int
	// Unread is how many skills a filter of states or tags leaves out because their descriptors were not read yet. Read is a relative URL of the
	// page that reads some of them; empty: all are read.
	Unread int
	Read   string
	// Filter selects the skills of a list.
	Filter Filter
	// Choices are the values of the filter.
	Choices Choices
	// Skill is the value of skill in the query; empty: the page is a list.
	Skill string
	// MCP has no Endpoint if the bridge does not serve MCP, and no Clients if the page shows no skills.
	MCP MCP
	// Agent is the URL of A2A for all skills; empty: it is not served.
	Agent string
	// Principal is the caller; empty: anonymous.
	Principal string
	// Nonce is the attribute nonce of the page's styles and scripts. The browser ignores those without it.
	Nonce string
	// Style and Script are the style and the script of the embedded template; empty: its script asks for a part of the page.
	Style  template.CSS
	Script template.JS
}

// Group has shown skills of one source, or the results of a search. Each source with selected skills has a group, even
// if none of its skills is shown.
type Group struct {
	// Namespace is empty for the skills that were configured one by one, and for the results of a search.
	Namespace string
	// Results says that the skills are the results of a search, best first.
	Results bool
	// Skills are the shown skills.
	Skills []Skill
	// Total is how many skills of the source the filter selects. Hidden of them are not in Skills.
	Total, Hidden int
	// Before and More are relative URLs of pages with the skills that are not shown; empty: there is none.
	Before, More string
	// Account is the URL of the page on which the caller connects an account of their own at the source; empty: it needs none. Connected says that
	// one is connected.
	Account   string
	Connected bool
}

// Source is a source of skills.
type Source struct {
	Namespace string // empty for the skills that were configured one by one
	Total     int    // the number of its skills
	Link      string // a relative URL of the page with its skills; empty: there is none
}

// Unavailable is a source that could not be read.
type Unavailable struct {
	Namespace, Reason string
}

// Choice is a value of a filter.
type Choice struct {
	Value, Label string
	Chosen       bool
}

// Choices are the values of the fields of a [Filter].
type Choices struct{ States, Types, Tags []Choice }

// Skill is one skill. Lists have only its names, texts, types, tags and condition.
type Skill struct {
	// Name is the skill's name in calls. Title is the provider's name for it, if known.
	Name, Title, Namespace, Version, Description string
	// CapabilityType and Access are values of the Skill Sharing Protocol.
	CapabilityType, Access string
	Condition

	// Tool is the name for language models; empty: there is none.
	Tool string

	Tags []string
	// Descriptor is the skill's, like the following fields only if it is available or needs credentials.
	Descriptor *document.Descriptor
	Inputs     []Input
	MoreInputs int // number of inputs that are not in Inputs
	// Schema is that of the output, in JSON; empty: there is none, or it is too long.
	Schema string
	// Code is how programs call the skill; none if its URL or its name can't be written.
	Code []Code
	// A2A has no Endpoint if the bridge does not serve A2A.
	A2A A2A
	// Reading is the text of a skill that is read and can't be executed, and names its further files; empty: the skill is executed. Such a
	// skill has no Inputs and no A2A, and its Code reads it.
	Reading string
}

// Condition says whether a skill can be called.
type Condition struct {
	// State is one of available, readable, needs_consent, needs_credentials, incompatible, unsupported, invalid, unreachable and unknown. Lists of the endpoint have the same states.
	State catalog.State
	// Since is when the state became known; zero: it is not known since when. Ago is the time since then, such as "3 h".
	Since time.Time
	Ago   string
	// Reason says why a skill is not available, and Faults what is wrong with its descriptor.
	Reason string
	Faults []Fault
	// Held says that the provider has changed what the skill asks for, and that the earlier descriptor is shown and used; empty: it is the newest.
	Held string
	// Denied says that no call can succeed, since the bridge has no credential for the skill. It is false if the provider has refused the credential.
	Denied bool
}

// Callable reports whether the skill's descriptor could be used, so that its inputs are known.
func (c *Condition) Callable() bool {
	return c.State == catalog.Available || c.State == catalog.Readable || c.State == catalog.NeedsConsent || c.State == catalog.NeedsCredentials
}

// Exception says what is not as it should be; empty: the skill can be called, or its descriptor was not read yet.
func (c *Condition) Exception() string {
	if c.State == catalog.Available || c.State == catalog.Readable || c.State == catalog.Unknown {
		return ""
	}
	return stateLabels[c.State]
}

// stateLabels are the names of the states for people.
var stateLabels = map[catalog.State]string{
	catalog.Available: "available", catalog.Readable: "only to read", catalog.NeedsConsent: "needs your account", catalog.NeedsCredentials: "needs credentials", catalog.Unreachable: "unreachable",
	catalog.Invalid: "invalid", catalog.Incompatible: "incompatible", catalog.Unsupported: "not supported", catalog.Unknown: "not read yet",
}

// Code is a text with which a program calls a skill, or a definition of the skill.
type Code struct {
	Label, Text string
	// Language is shell, python or typescript, and Inputs is what stands for the inputs in Text; empty: there are none in it.
	Language, Inputs string
}

// Fault is an error in a descriptor.
type Fault struct {
	Path, Message string // Path is a JSON Pointer
}

// Input is one input of a skill.
type Input struct {
	*document.Parameter

	Choices []string // the allowed values in JSON, if the schema lists them
	Rules   []Rule
	// Schema is the JSON Schema of the input, for the form; empty: it is too long.
	Schema string
}

// Rule is a keyword of a schema and its value in JSON.
type Rule struct{ Keyword, Value string }

// Link is a link from a provider. Its scheme is https or http.
type Link struct {
	URL  string // empty: there is none
	Host string // the host of the URL, in ASCII
}
