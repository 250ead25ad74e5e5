package publish

import (
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// An Operation says how arguments become a request to an API, and what its answer means. It is immutable.
type Operation struct {
	Method string // in capital letters
	// Path is the template of the path, that of the document's first server included, such as /v1/pets/{petId}. It begins with one slash and is
	// percent-encoded (RFC 3986), but for the braces. Each parameter in it is one of Parameters.
	Path string
	// Others are the paths of the operations with the same method that are not published, below that of the server, in lower case, each
	// segment as a pattern of [path.Match]. No argument makes the path one of these.
	Others     [][]string
	Below      int    // how many segments the path of the server has
	Query      string // what is in each query, encoded; empty: nothing
	Parameters []Parameter
	Body       *Body // nil: the request has none
	// Accept are the media types of the first 2xx answer, for the header Accept; empty: any.
	Accept []string
	// Credentials are the names of the request headers that carry the credential of the operation, in canonical form. No other credential goes with it.
	Credentials []string
	Basic       bool // one of them is that of HTTP Basic
	// Secrets are the places of the credentials of all operations, such as "cookie sid", and of what the queries of its path set; no argument sets them.
	Secrets []string
	// Demand is what a caller without a credential is answered.
	Demand Demand
}

// A Demand is the credential that an operation needs.
type Demand struct {
	Type             string `json:"required_auth_type"`          // of auth.type in the descriptor, such as api_key; empty: none
	Header           string `json:"header,omitempty"`            // of api_key
	AuthorizationURL string `json:"authorization_url,omitempty"` // of oauth2
}

// A Parameter is an input that becomes a part of the URL, or a header. [Settable] holds for it.
type Parameter struct {
	Name string // also of the input of the skill
	In   string // path, query, header or cookie
	// Style is simple, form, deepObject, spaceDelimited, tabDelimited or pipeDelimited.
	Style   string
	Explode bool
	// JSON sends the value as JSON: of a parameter with content, and an object in a form.
	JSON bool
}

// A Body is the request body of an operation.
type Body struct {
	MediaType string // without wildcards
	// Whole is the one input that is the body; empty: Members are. In a form, the members of its value are the fields.
	Whole    string
	Base64   bool // Whole is base64 of the body's bytes
	Required bool // without arguments for it, an empty object or form is sent
	Members  []Member
}

// A Member is an input that becomes a member of a body in JSON, or a field of a form.
type Member struct {
	Name     string // also of the input of the skill
	Required bool   // if any member is given
	// File: the value is base64 of the bytes of a file (contentEncoding), or an array of such values. MediaType is its type; empty: it is detected.
	File      bool
	MediaType string
	// Style and Explode are those of a field of a form (the document's encoding), as in Parameter. Without a style, each item of an array is a
	// field, and an object is JSON.
	Style   string
	Explode bool
}

// A Result is what an answer of the API means for the skill.
type Result struct {
	run.Run
	// Refused is the status of the answer to the caller, with the error in the form of the protocol's section 8.1, if that says more than a failed run;
	// 0: the run has ended.
	Refused int
	// Header has headers for the answer to the caller, such as WWW-Authenticate.
	Header http.Header
}
