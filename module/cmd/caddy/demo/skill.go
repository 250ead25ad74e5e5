package demo

import (
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A skill is what its descriptor says and what it does.
type skill struct {
	slug       string
	work       work
	unlisted   bool // found by its descriptor's URL only: no index has it
	resultOnly bool // the output is at the result URL, not in the status
	share      int  // a run takes the run time of the configuration divided by this; 0: the first answer is the last

	descriptor descriptor
	document   document
	request    *jsonschema.Schema
}

// A work turns checked inputs into an output that can be marshaled, or says
// why the run fails.
type work func(arguments) (any, *runError)

// skills lists what the provider offers, in the order of its index.
var skills = []skill{
	{slug: "summarize", work: summarize, share: 1, resultOnly: true},
	{slug: "markdown", work: renderMarkdown},
	{slug: "qr-code", work: drawQRCode, share: 10},
	{slug: "diff", work: diffTexts, unlisted: true},
	{slug: "csv-to-json", work: readCSV, share: 10},
	{slug: "telepathy"}, // for a later version of the protocol: no invocation is accepted
}

// takes is how long a run goes on.
func (s *skill) takes(runTime time.Duration) time.Duration {
	if s.share == 0 {
		return 0
	}
	return runTime / time.Duration(s.share)
}
