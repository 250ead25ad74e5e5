package demo

import (
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A skill is a descriptor and its implementation.
type skill struct {
	slug       string
	work       work
	unlisted   bool // not in the index
	resultOnly bool // the output is only at the result URL
	divisor    int  // of the configured run time; 0: runs complete at once

	descriptor descriptor
	document   document
	request    *jsonschema.Schema
}

// A work computes an output for valid inputs, or returns the error of the run.
type work func(arguments) (any, *runError)

// skills lists what the provider offers, in the order of its index.
var skills = []skill{
	{slug: "summarize", work: summarize, divisor: 1, resultOnly: true},
	{slug: "markdown", work: renderMarkdown},
	{slug: "qr-code", work: drawQRCode, divisor: 10},
	{slug: "diff", work: diffTexts, unlisted: true},
	{slug: "csv-to-json", work: readCSV, divisor: 10},
	{slug: "telepathy"}, // for an unsupported protocol version: the bridge refuses it
}

// takes returns the duration of a run.
func (s *skill) takes(runTime time.Duration) time.Duration {
	if s.divisor == 0 {
		return 0
	}
	return runTime / time.Duration(s.divisor)
}
