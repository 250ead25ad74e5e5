package wire

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// writer appends a task and its parts in the form of one version.
type writer struct {
	front.Writer
	version Version
	task    *task.Task
}

// artifactID is the id and the name of a task's artifact.
const artifactID = "output"

// timeLayout is the layout of timestamps (A2A 1.0, section 5.6.1).
const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendTask appends a task. historyLength is the largest number of messages; nil: all, in 0.1 none. Without artifacts, its
// artifact is left out.
func AppendTask(b []byte, v Version, t *task.Task, historyLength *int, artifacts bool) []byte {
	w := writer{front.Writer{Buf: b}, v, t}
	w.all(historyLength, artifacts)
	return w.Buf
}

// AppendSendResult appends the result of a method that sends a message: in 1.0 a member of an object, in older versions
// the task alone.
func AppendSendResult(b []byte, v Version, t *task.Task, historyLength *int) []byte {
	if v == V10 {
		return append(AppendTask(append(b, `{"task":`...), v, t, historyLength, true), '}')
	}
	return AppendTask(b, v, t, historyLength, true)
}

// AppendMessageResult appends a message as the result of a method that sends a message. The message has the contextId of t, but
// no taskId.
func AppendMessageResult(b []byte, v Version, m *task.Message, t *task.Task) []byte {
	w := writer{front.Writer{Buf: b}, v, t}
	if v == V10 {
		w.Buf = append(w.Buf, `{"message":`...)
	}
	w.message(m, 0, false)
	if v == V10 {
		w.Close()
	}
	return w.Buf
}

// appendUpdate appends an event: the artifact of a task, or its status. last says that it is the last one of its stream. In the older versions, it becomes the member
// final of a status; some clients stop reading after it.
func appendUpdate(b []byte, v Version, t *task.Task, artifact, last bool) []byte {
	w := writer{front.Writer{Buf: b}, v, t}
	w.Buf = append(w.Buf, '{')
	switch {
	case v == V10 && artifact:
		w.OpenMember("artifactUpdate")
	case v == V10:
		w.OpenMember("statusUpdate")
	case v == V03 && artifact:
		w.Text("kind", "artifact-update")
	case v == V03:
		w.Text("kind", "status-update")
	}
	if v == V01 {
		w.Text("id", w.taskID())
	} else {
		w.Text("taskId", w.taskID())
		w.Text("contextId", t.Context)
	}
	if artifact {
		w.Name("artifact")
		w.artifact()
		if v != V01 {
			w.Bool("lastChunk", true)
		}
	} else {
		w.Name("status")
		w.status()
		if v != V10 {
			w.Bool("final", last)
		}
	}
	if artifact || t.Status.State.Terminal() {
		w.Raw("metadata", Warnings(t))
	}
	if v == V10 {
		w.Close()
	}
	w.Close()
	return w.Buf
}

// AppendPage appends the result of ListTasks. total is the number of tasks on all pages.
func AppendPage(b []byte, tasks []*task.Task, nextToken string, pageSize, total int, q *ListQuery) []byte {
	w := front.Writer{Buf: append(b, '{')}
	w.OpenArray("tasks")
	for _, t := range tasks {
		w.Next()
		w.Buf = AppendTask(w.Buf, V10, t, q.HistoryLength, q.Artifacts)
	}
	w.CloseArray()
	w.Text("nextPageToken", nextToken)
	w.Integer("pageSize", int64(pageSize))
	w.Integer("totalSize", int64(total))
	w.Close()
	return w.Buf
}

// taskID returns the id of the task in this version.
func (w *writer) taskID() string {
	if w.version == V01 && w.task.Name != "" {
		return w.task.Name
	}
	return w.task.ID
}

// all appends the task.
func (w *writer) all(historyLength *int, artifacts bool) {
	t := w.task
	w.Buf = append(w.Buf, '{')
	w.Text("id", w.taskID())
	if w.version == V01 {
		w.Optional("sessionId", t.Context)
	} else {
		w.Text("contextId", t.Context)
	}
	w.Name("status")
	w.status()
	if artifacts && t.Artifact != nil {
		w.OpenArray("artifacts")
		w.artifact()
		w.CloseArray()
	}
	w.history(historyLength)
	w.metadata()
	if w.version == V03 {
		w.Text("kind", "task")
	}
	w.Close()
}

// messages returns how many messages of its history an answer with a task has.
func messages(v Version, t *task.Task, historyLength *int) int {
	switch n := len(t.History); {
	case historyLength != nil:
		return min(n, *historyLength)
	case v == V01: // its clients have to ask for the history
		return 0
	default:
		return n
	}
}

// history appends the newest messages of the history, if there are any.
func (w *writer) history(length *int) {
	all := w.task.History
	first := len(all) - messages(w.version, w.task, length)
	if first == len(all) {
		return
	}
	w.OpenArray("history")
	for i := first; i < len(all); i++ {
		w.Next()
		w.message(&all[i], i, true)
	}
	w.CloseArray()
}

// metadata appends the object of the extension, which describes the run.
func (w *writer) metadata() {
	t := w.task
	if t.Skill == "" && t.Ref.Source == "" && t.Ref.Version == "" && t.Ref.ExecutionID == "" {
		return
	}
	w.OpenMember("metadata")
	w.OpenMember(Extension)
	w.Optional("skill", t.Skill)
	w.Optional("version", t.Ref.Version)
	w.Optional("provider", t.Ref.Source)
	w.Optional("executionId", t.Ref.ExecutionID)
	warnings(&w.Writer, t)
	w.Close()
	w.Close()
}

// warnings appends to the object of the extension how the provider's answer was repaired, if it was.
func warnings(w *front.Writer, t *task.Task) {
	if len(t.Warnings) > 0 {
		w.OpenArray("warnings")
		w.AnswerFaults(t.Warnings)
		w.CloseArray()
	}
}

// Warnings returns the metadata of an event or message with the output of a task: how the provider's answer was repaired; nil: it was not.
func Warnings(t *task.Task) jsontext.Value {
	if len(t.Warnings) == 0 {
		return nil
	}
	return front.Object(func(w *front.Writer) {
		w.OpenMember(Extension)
		warnings(w, t)
		w.Close()
	})
}

// stateName returns the name of a state. 0.1 lacks two of the states, and gets similar ones.
func (w *writer) stateName(s task.State) string {
	switch {
	case w.version == V10:
		return stateNames[min(int(s), len(stateNames)-1)]
	case w.version == V01 && s == task.Rejected:
		s = task.Failed
	case w.version == V01 && s == task.AuthRequired:
		s = task.InputRequired
	}
	return s.String()
}

// status appends the status of the task.
func (w *writer) status() {
	s := &w.task.Status
	w.Buf = append(w.Buf, '{')
	w.Text("state", w.stateName(s.State))
	if s.Message != nil {
		w.Name("message")
		w.message(s.Message, len(w.task.History), true)
	}
	if !s.At.IsZero() {
		w.Name("timestamp")
		w.Buf = append(w.Buf, '"')
		w.Buf = s.At.UTC().AppendFormat(w.Buf, timeLayout)
		w.Buf = append(w.Buf, '"')
	}
	w.Close()
}

// artifact appends the artifact of the task, which must have one.
func (w *writer) artifact() {
	w.Buf = append(w.Buf, '{')
	if w.version != V01 {
		w.Text("artifactId", artifactID)
	}
	w.Text("name", artifactID)
	w.parts(w.task.Artifact.Parts)
	if w.version == V01 {
		w.Integer("index", 0)
		w.Bool("lastChunk", true)
	}
	w.Close()
}

// message appends a message of the task. With ofTask, it has the member taskId. index is its place in the history.
func (w *writer) message(m *task.Message, index int, ofTask bool) {
	w.Buf = append(w.Buf, '{')
	if w.version == V03 {
		w.Text("kind", "message")
	}
	if w.version != V01 {
		w.messageID(m, index)
		w.Text("contextId", w.task.Context)
		if ofTask {
			w.Text("taskId", w.taskID())
		}
	}
	w.Text("role", roleName(w.version, m.Role))
	w.parts(m.Parts)
	w.Raw("metadata", m.Metadata)
	if w.version != V01 {
		if len(m.Extensions) > 0 {
			w.Texts("extensions", m.Extensions)
		}
		if len(m.References) > 0 {
			w.Texts("referenceTaskIds", m.References)
		}
	}
	w.Close()
}

// messageID appends the id of a message. Messages that were sent in 0.1 have none; their id is the task's id with their place
// in the history.
func (w *writer) messageID(m *task.Message, index int) {
	if m.ID != "" {
		w.Text("messageId", m.ID)
		return
	}
	w.Text("messageId", w.task.ID+"."+strconv.Itoa(index))
}

func roleName(v Version, r task.Role) string {
	switch {
	case r == task.User:
		return userRoles[v]
	case v == V10:
		return "ROLE_AGENT"
	}
	return "agent"
}

func (w *writer) parts(list []task.Part) {
	w.OpenArray("parts")
	for i := range list {
		w.Next()
		if w.version == V10 {
			w.part(&list[i])
		} else {
			w.partOfKind(&list[i])
		}
	}
	w.CloseArray()
}

// part appends a part of 1.0.
func (w *writer) part(p *task.Part) {
	w.Buf = append(w.Buf, '{')
	switch p.Kind {
	case front.PartData:
		w.data("data", p.Data)
	case front.PartBytes:
		w.Text("raw", p.Text)
	case front.PartURL:
		w.Text("url", p.Text)
	default:
		w.Text("text", p.Text)
	}
	w.Optional("filename", p.Filename)
	w.Optional("mediaType", p.MediaType)
	w.Raw("metadata", p.Metadata)
	w.Close()
}

// partOfKind appends a part of 0.3 or 0.1.
func (w *writer) partOfKind(p *task.Part) {
	name := "kind"
	if w.version == V01 {
		name = "type"
	}
	w.Buf = append(w.Buf, '{')
	switch p.Kind {
	case front.PartData:
		w.Text(name, "data")
		if p.Data.Kind() == '{' {
			w.data("data", p.Data)
		} else {
			w.OpenMember("data") // these versions allow only objects
			w.data("result", p.Data)
			w.Close()
		}
	case front.PartBytes, front.PartURL:
		w.Text(name, "file")
		w.OpenMember("file")
		if p.Kind == front.PartBytes {
			w.Text("bytes", p.Text)
		} else {
			w.Text("uri", p.Text)
		}
		w.Optional("name", p.Filename)
		w.Optional("mimeType", p.MediaType)
		w.Close()
	default:
		w.Text(name, "text")
		w.Text("text", p.Text)
		if p.Filename+p.MediaType != "" && p.Metadata == nil { // only files of these versions have members for them
			w.OpenMember("metadata")
			w.Optional("filename", p.Filename)
			w.Optional("mediaType", p.MediaType)
			w.Close()
		}
	}
	w.Raw("metadata", p.Metadata)
	w.Close()
}

// data appends a value. A part that was read from a damaged entry may have none.
func (w *writer) data(name string, value jsontext.Value) {
	w.Name(name)
	if len(value) == 0 {
		value = jsontext.Value("null")
	}
	w.Buf = append(w.Buf, value...)
}
