package bridge

import (
	"cmp"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// runMemory is what a call is reckoned with when memory is limited, in bytes.
const runMemory = 64 << 10

// limits are those that the operator configured, and the defaults of the others.
func (h *Handler) limits() Limits {
	var l Limits
	if h.Limits != nil {
		l = *h.Limits
	}
	l.Runs = cmp.Or(l.Runs, affordableRuns(debug.SetMemoryLimit(-1)))
	l.RunsPerProvider = cmp.Or(l.RunsPerProvider, max(1, l.Runs/2))
	l.Waiting = cmp.Or(l.Waiting, l.Runs)
	l.Polls = cmp.Or(l.Polls, max(defaultPolls, l.Runs))
	l.ConnectionOverhead = cmp.Or(l.ConnectionOverhead, defaultConnectionOverhead)
	return l
}

// checkWaiting checks that waiting can be reached: who waits is one of runs. Where
// runs is not given, it is measured by the largest default, so that a configuration
// is not valid on one machine and invalid on another that has less memory.
func (l *Limits) checkWaiting() error {
	switch {
	case l.Runs == 0 && l.Waiting > defaultMaxRuns:
		return fmt.Errorf("waiting %d is more than runs, which are %d at most unless you say otherwise, so it can't be reached", l.Waiting, defaultMaxRuns)
	case l.Runs > 0 && l.Waiting > l.Runs:
		return fmt.Errorf("waiting %d is more than runs %d, so it can't be reached", l.Waiting, l.Runs)
	}
	return nil
}

// affordableRuns is the default of runs under a memory limit.
func affordableRuns(memory int64) int {
	if memory == math.MaxInt64 { // there is none
		return defaultMaxRuns
	}
	return int(min(defaultMaxRuns, max(1, memory/2/runMemory)))
}

// readingLimits are those of documents and answers.
func (h *Handler) readingLimits() document.Limits {
	l, standard := h.limits(), document.DefaultLimits()
	return document.Limits{
		Depth:              cmp.Or(l.Depth, standard.Depth),
		DocumentSize:       min(cmp.Or(l.DocumentSize, standard.DocumentSize), h.maxResponseSize()),
		Skills:             cmp.Or(l.Skills, standard.Skills),
		Parameters:         cmp.Or(l.Parameters, standard.Parameters),
		SchemaSize:         int(cmp.Or(l.SchemaSize, int64(standard.SchemaSize))),
		SchemaComplexity:   cmp.Or(l.SchemaComplexity, standard.SchemaComplexity),
		ArgumentComplexity: cmp.Or(l.ArgumentComplexity, standard.ArgumentComplexity),
		OutputSize:         cmp.Or(l.OutputSize, h.maxResponseSize()),
		Reads:              cmp.Or(l.Reads, standard.Reads),
		FailedReads:        cmp.Or(l.FailedReads, standard.FailedReads),
		BodyTimeout:        orDefault(l.BodyTimeout, standard.BodyTimeout),
	}
}

// maxResponseSize bounds what is read of any answer, in bytes.
func (h *Handler) maxResponseSize() int64 { return cmp.Or(h.MaxResponseSize, defaultMaxResponseSize) }

// answerSize bounds the answer to a batch, in bytes.
func (h *Handler) answerSize() int64 {
	if h.Limits != nil && h.Limits.AnswerSize > 0 {
		return h.Limits.AnswerSize
	}
	return max(defaultAnswerSize, 2*min(h.maxResponseSize(), math.MaxInt64/2))
}

// answers bounds all answers that are kept at a time, in bytes, under a memory limit.
func (h *Handler) answers(memory int64) int64 {
	if h.Limits != nil && h.Limits.Answers > 0 {
		return h.Limits.Answers
	}
	if memory == math.MaxInt64 { // there is none
		memory = 4 * defaultAnswers
	}
	return max(memory/4, h.answerSize())
}

// checkAnswers checks that the largest answer to a batch fits among all answers.
func (h *Handler) checkAnswers() error {
	if h.Limits == nil || h.Limits.Answers == 0 || h.Limits.Answers >= h.answerSize() {
		return nil
	}
	return fmt.Errorf("answers %d is less than the %d of limits answer_size, so an answer of that size would never be given", h.Limits.Answers, h.answerSize())
}

// checkAnswerSize checks that the largest output fits into an answer.
func (h *Handler) checkAnswerSize() error {
	if h.Limits == nil || h.Limits.AnswerSize == 0 {
		return nil
	}
	name, output := "limits output_size", h.Limits.OutputSize
	if output == 0 {
		name, output = "max_response_size", h.maxResponseSize()
	}
	if h.Limits.AnswerSize < output {
		return fmt.Errorf("answer_size %d is less than the %d of %s, so an output of that size would never be answered", h.Limits.AnswerSize, output, name)
	}
	return nil
}

// retryBudget is a share of calls, from 0 to 1.
func (h *Handler) retryBudget() float64 {
	percent := defaultRetryBudget
	if h.RetryBudget != nil {
		percent = *h.RetryBudget
	}
	return float64(percent) / 100
}
