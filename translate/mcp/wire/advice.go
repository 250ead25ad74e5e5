package wire

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Advice returns a sentence that tells a model what to do next after a failure, after a space.
func Advice(f *run.Failure, next run.Next, token string) string {
	switch next {
	case run.NextFixParams:
		if f.Argument != nil && f.Argument.Reason == run.OnlyRead {
			return "" // the message says what to read
		}
		return " Correct the arguments and call the tool again."
	case run.NextRetry:
		return " Nothing was executed: call the tool again in " + pause(f) + "."
	case run.NextFollowRun:
		if f.Kind == run.Stopped { // the message says that the run goes on
			return " Do not start another one: call get_run with run_token " + token + "."
		}
		return " The run was started and may still be going on: do not start another one; call get_run with run_token " + token + "."
	case run.NextAuthenticate:
		return " Tell the user to sign in to this server, and call the tool again."
	case run.NextAskOperator:
		return " You can't solve this: tell the user to ask the operator of this server."
	case run.NextOtherSkill:
		return " Use another tool."
	case run.NextNone:
		return repeating(f)
	}
	return ""
}

// pause says how long to wait before another call.
func pause(f *run.Failure) string {
	var seconds float64
	if hint := f.RetryHint(); hint != nil {
		seconds = hint.After.Seconds()
	} else if said := Member(f.ProviderSaid().Retry, "suggested_delay_ms"); said.Kind() == '0' {
		ms, _ := strconv.ParseFloat(string(said), 64) // infinite if it is too large
		seconds = ms / 1000
	}
	if seconds <= 2 || seconds > 24*60*60 {
		return "a moment"
	}
	return strconv.Itoa(int(math.Ceil(seconds))) + " seconds"
}

// repeating says what another call would do after a failure that nothing is known to help against.
func repeating(f *run.Failure) string {
	switch {
	case f.Lost, f.Kind == run.Stopped: // the message says what to do
		return ""
	case f.Kind == run.RunFailed:
		return " The skill was executed and failed: another call executes it again."
	case f.Executed == run.ExecutedYes:
		return " The skill was started, and may still be running: another call starts it again."
	case f.Executed == run.ExecutedMaybe:
		return " The skill may have been executed all the same: find that out, or ask the user, before you call the tool again."
	}
	return ""
}

// Unknown returns a sentence, after a space, about arguments that a tool does not have, or nothing if there are none.
func Unknown(arguments []string) string {
	if len(arguments) == 0 {
		return ""
	}
	return " The tool has no argument " + oneOf(arguments, ", ") + "."
}

// Similar ends a sentence about an unknown name with the names that a client may have meant, and with the sources that were not searched. Many clients
// show a model a message only, and not its data.
func Similar(names, unread []string) string {
	text := ""
	if len(names) > 0 {
		const most = 3
		text = ". Did you mean " + oneOf(names[:min(len(names), most)], " or ") + "?"
	}
	if len(unread) > 0 {
		text = cmp.Or(text, ".") + " Not searched, because they can't be read at the moment: " + oneOf(unread, ", ") + "."
	}
	return text
}

// oneOf joins names.
func oneOf(names []string, separator string) string {
	var all strings.Builder
	for i, name := range names {
		if i > 0 {
			all.WriteString(separator)
		}
		all.WriteString(`"` + safetext.Line(name, MaxQuoted) + `"`)
	}
	return all.String()
}
