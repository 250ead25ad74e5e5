package wire

import (
	"cmp"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Writer writes JSON.
type Writer struct{ front.Writer }

// TextContent adds a text as content.
func (w *Writer) TextContent(text string) {
	w.Open()
	w.Text("type", "text")
	w.Text("text", text)
	w.Close()
}

// Part adds a part of an output as a value. runID and i name files without a name.
func (w *Writer) Part(p *front.Part, runID string, i int) {
	mediaType := p.MediaType
	switch kind := p.Media(); {
	case p.Kind == front.PartData:
		w.TextContent(string(p.Data))
	case p.Kind == front.PartURL:
		w.Open()
		w.Text("type", "resource_link")
		w.Text("uri", p.Text)
		w.Text("name", fileName(p, i))
		w.Optional("mimeType", mediaType)
		w.Close()
	case kind != "":
		w.Open()
		w.Text("type", kind)
		w.Text("data", p.Text)
		w.Text("mimeType", mediaType)
		w.Close()
	case p.Kind == front.PartText && p.Filename == "":
		w.TextContent(p.Text)
	default:
		w.Open()
		w.Text("type", "resource")
		w.OpenMember("resource")
		w.Text("uri", "skill-output://"+url.PathEscape(runID)+"/"+url.PathEscape(fileName(p, i)))
		w.Optional("mimeType", mediaType)
		if p.Kind == front.PartText {
			w.Text("text", p.Text)
		} else {
			w.Text("blob", p.Text)
		}
		w.Close()
		w.Close()
	}
}

// fileName returns the name of a file of an output.
func fileName(p *front.Part, i int) string {
	if p.Filename != "" {
		return p.Filename
	}
	return "output-" + strconv.Itoa(i+1)
}

// IsJSON reports whether outputs of a content type are JSON values, which is the default.
func IsJSON(contentType string) bool {
	essence := front.Essence(contentType)
	return essence == "" || essence == "application/json" || strings.HasSuffix(essence, "+json")
}

// Bounds of texts, in characters.
const (
	MaxQuoted      = 200
	MaxDescription = 2000
)

// MetaSkill is the member of a tool's _meta about its skill.
const MetaSkill = "io.github.skill-bridge/skill"

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
	case run.NextConnect:
		if token != "" {
			return " Then call get_run with run_token " + token + "; do not start another run."
		}
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
	} else if said := jsonrpc.ValueOf(f.ProviderSaid().Retry, "suggested_delay_ms"); said.Kind() == '0' {
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
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = `"` + safetext.Line(name, MaxQuoted) + `"`
	}
	return strings.Join(all, separator)
}

// The states of tasks.
const (
	TaskWorking   = "working"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
)

// Bounds of pollIntervalMs.
const (
	ShortestPoll = 500 * time.Millisecond
	longestPoll  = 30 * time.Second
)

// TaskState is the state of a task.
type TaskState struct {
	Status, Message string
	Since           time.Time     // when it changed; zero: now
	RetryAfter      time.Duration // of a task that works
}

// Task adds the members of a task, whose id is valid for a time.
func (w *Writer) Task(id string, ref *run.Ref, lifetime time.Duration, s TaskState) {
	if s.Since.IsZero() {
		s.Since = time.Now()
	}
	w.Text("taskId", id)
	w.Text("status", s.Status)
	w.Optional("statusMessage", s.Message)
	w.Text("createdAt", ref.Accepted.UTC().Format(TimeLayout))
	w.Text("lastUpdatedAt", s.Since.UTC().Format(TimeLayout))
	w.Integer("ttlMs", lifetime.Milliseconds())
	if s.Status == TaskWorking {
		w.Integer("pollIntervalMs", min(max(s.RetryAfter, ShortestPoll), longestPoll).Milliseconds())
	}
}

// TimeLayout is that of ISO 8601, with milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// EnvelopeData returns the data of errors of package jsonrpc: invalid requests and panics.
func EnvelopeData(_ int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	return front.Object(func(w *front.Writer) {
		w.Text("reason", reason)
		if limit != nil && limit.Name != "" {
			w.Raw("details", front.LimitDetails(limit.Name, limit.Max))
		}
	})
}
