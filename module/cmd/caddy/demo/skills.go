package demo

import "time"

// A skill is one entry of the table below: what its documents say and what
// it does.
type skill struct {
	slug, name, version, capability, description string

	protocol   string // the protocol version its descriptor declares
	access     access
	protection protection
	tags       []string
	inputs     []parameter
	output     output

	unlisted   bool          // found by its descriptor's URL only: no index has it
	duration   time.Duration // how long a run takes; 0: it is done in the first answer
	resultOnly bool          // the output is at the result URL, not in the status
	work       work
}

// A work turns checked inputs into an output that can be marshaled, or says
// why the run fails.
type work func(arguments) (any, *runError)

func (s *skill) id() string { return idPrefix + s.slug }

const (
	maxText     = 50_000 // characters of a text input
	maxMarkdown = 20_000 // fewer, since nested markup takes goldmark quadratic time
)

// skills lists what the provider offers, in the order of its index.
func (h *Handler) skills() []*skill {
	slow := time.Duration(h.RunTime)
	fast := slow / 10

	return []*skill{
		{
			slug: "summarize", name: "Summarize", version: "1.0.0", capability: "api",
			description: "Picks the sentences that say most of a text. Takes a few seconds.",
			protocol:    "1.0.0", access: public, protection: unprotected, tags: []string{"text", "summary"},
			inputs: []parameter{
				textInput("text", "The text to summarize.", 1, maxText),
				numberInput("sentences", "How many sentences to keep.", 3, 1, 20),
			},
			output: jsonOutput("The chosen sentences in the order of the text.", map[string]string{
				"summary": "string", "sentences": "integer", "sentences_in_text": "integer",
			}),
			duration: slow, resultOnly: true, work: summarize,
		},
		{
			slug: "markdown", name: "Markdown to HTML", version: "1.0.0", capability: "api",
			description: "Turns CommonMark with GitHub's extensions into HTML. Raw HTML and dangerous links are left out.",
			protocol:    "1.0.0", access: public, protection: unprotected, tags: []string{"text", "html"},
			inputs: []parameter{textInput("markdown", "The Markdown text.", 0, maxMarkdown)},
			output: jsonOutput("The HTML fragment.", map[string]string{"html": "string"}),
			work:   renderMarkdown,
		},
		{
			slug: "qr-code", name: "QR code", version: "1.0.0", capability: "api",
			description: "Draws a QR code as a PNG image.",
			protocol:    "1.0.0", access: public, protection: byAPIKey, tags: []string{"image"},
			inputs: []parameter{
				// 500 characters are at most 2,000 bytes; a code of level M holds 2,331
				textInput("text", "What the code says, for example a URL.", 1, 500),
				numberInput("scale", "Width of one module in pixels.", 8, 1, 16),
			},
			output: jsonOutput("The image, in base64.", map[string]string{
				"media_type": "string", "data_base64": "string", "width": "integer",
			}),
			duration: fast, work: drawQRCode,
		},
		{
			slug: "diff", name: "Text diff", version: "1.0.0", capability: "api",
			description: "Compares two texts line by line and answers with a unified diff.",
			protocol:    "1.0.0", access: restricted, protection: byOAuth, tags: []string{"text", "diff"},
			inputs: []parameter{
				textInput("old", "The text before.", 0, maxText),
				textInput("new", "The text after.", 0, maxText),
				numberInput("context", "Unchanged lines around a change.", 3, 0, 20),
			},
			output: jsonOutput("The unified diff; empty when the texts are equal.", map[string]string{
				"diff": "string", "changed": "boolean",
			}),
			unlisted: true, work: diffTexts,
		},
		{
			slug: "csv-to-json", name: "CSV to JSON", version: "1.0.0", capability: "plugin",
			description: "Reads CSV (RFC 4180) into columns and rows. Malformed CSV fails the run with CSV_ERROR and the position.",
			protocol:    "1.0.0", access: public, protection: unprotected, tags: []string{"data", "csv"},
			inputs: []parameter{
				textInput("csv", "The CSV text; its first record names the columns.", 1, maxText),
			},
			output: jsonOutput("The column names, and the fields of each record as strings.", map[string]string{
				"columns": "array", "rows": "array",
			}),
			duration: fast, work: readCSV,
		},
		{
			slug: "telepathy", name: "Telepathy", version: "2.0.0", capability: "knowledge",
			description: "Written for version 2 of the protocol, so that a consumer of version 1 must refuse it.",
			protocol:    "2.0.0", access: public, protection: unprotected, tags: []string{"version"},
			inputs: []parameter{textInput("thought", "What to transmit.", 1, maxText)},
			output: jsonOutput("Nothing a consumer of version 1 could read.", map[string]string{"thought": "string"}),
		},
		{
			slug: "internal-stats", name: "Internal statistics", version: "1.0.0", capability: "knowledge",
			description: "Counts the runs and tokens this provider holds. Private: listed only for those who send the API key.",
			protocol:    "1.0.0", access: private, protection: byAPIKey, tags: []string{"operations"},
			inputs: []parameter{},
			output: jsonOutput("The counts.", map[string]string{"runs": "object", "tokens": "integer"}),
			work: func(arguments) (any, *runError) {
				return struct {
					Runs   map[string]int `json:"runs"`
					Tokens int            `json:"tokens"`
				}{h.state.runs.counts(), h.state.tokens.count()}, nil
			},
		},
	}
}

func textInput(name, description string, minLength, maxLength int) parameter {
	return parameter{
		Name: name, Type: "string", Description: description, Required: true,
		Schema: schema{Type: "string", MinLength: minLength, MaxLength: maxLength},
	}
}

func numberInput(name, description string, standard, least, most int) parameter {
	return parameter{
		Name: name, Type: "integer", Description: description, Default: standard,
		Schema: schema{Type: "integer", Minimum: &least, Maximum: &most},
	}
}

// jsonOutput declares a JSON object with members of the given types.
func jsonOutput(description string, types map[string]string) output {
	properties := make(map[string]any, len(types))
	for name, typ := range types {
		properties[name] = map[string]string{"type": typ}
	}
	return output{
		ContentType: "application/json",
		Description: description,
		Schema:      map[string]any{"type": "object", "properties": properties},
	}
}
