package wire

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

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
