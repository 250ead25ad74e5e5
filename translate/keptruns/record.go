package keptruns

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Record is what is kept about a run, without its output.
type Record struct {
	Owner string
	ID    string
	// Skill is the name under which the skill is listed, and Asked the name in the call.
	Skill, Asked string
	// Key says that the call had an idempotency key.
	Key bool
	// Ref has no execution id while the provider has not answered the submission.
	Ref run.Ref
	// State is zero while the provider has not answered the submission, and for a submission that was not executed.
	State run.State
	// Ended is when the run has ended, as far as the bridge knows; zero: it has not. A submission after which it is not known
	// whether the skill was executed has ended, with the State zero.
	Ended time.Time
	// Notes are those of the front that has made the call.
	Notes jsontext.Value

	principal, front string         // of the caller
	instance         string         // that follows the run; empty: it is not known
	args             string         // digest of the arguments
	free             bool           // certainly not executed, so that the key is free
	outcome          bool           // the outcome is stored
	small            jsontext.Value // the outcome, if it is stored in the record
	single           bool           // the provider has no URL for asking about the run: its answer to the submission is the only one
	unkept           string         // the exceeded bound because of which the outcome is not stored; empty: none
	event            uint64         // of the stored record; 0: none is stored
}

// Began returns when the run was begun.
func (r *Record) Began() time.Time {
	began, _ := run.TimeOfID(r.ID)
	return began
}

// Unkept reports whether the run has ended and how can't be learned any more: it is not stored, and the provider can't be asked.
func (r *Record) Unkept() bool {
	ended := r.State == run.Completed || r.State == run.Failed || r.State == run.TimedOut
	return ended && !r.outcome && r.single
}

// goesOn reports whether the run was accepted and is not known to have ended.
func (r *Record) goesOn() bool { return r.Ref.ExecutionID != "" && r.Ended.IsZero() }

// stored is the JSON of a Record, without its id. It has the owner, whose hash only is in the store, so that another process can follow the run.
type stored struct {
	Of        caller         `json:"of,omitzero"`
	Skill     string         `json:"skill"`
	Asked     string         `json:"asked"`
	Args      string         `json:"args"`
	Key       bool           `json:"key,omitzero"`
	Source    string         `json:"source"`
	SkillID   string         `json:"skill_id"`
	Version   string         `json:"version,omitzero"`
	Execution string         `json:"execution_id,omitzero"`
	Accepted  time.Time      `json:"accepted,omitzero"`
	NotBefore time.Time      `json:"not_before,omitzero"`
	State     run.State      `json:"state"`
	Ended     time.Time      `json:"ended,omitzero"`
	Free      bool           `json:"free,omitzero"`
	Outcome   bool           `json:"outcome,omitzero"`
	Small     jsontext.Value `json:"small_outcome,omitzero"`
	Single    bool           `json:"single,omitzero"`
	Unkept    string         `json:"unkept,omitzero"`
	Notes     jsontext.Value `json:"notes,omitzero"`
}

// caller is who has made a call, and the process that follows its run.
type caller struct {
	Owner     string `json:"owner,omitzero"`
	Principal string `json:"principal,omitzero"`
	Front     string `json:"front,omitzero"`
	Instance  string `json:"instance,omitzero"`
}

// jsonOptions keep the bytes of raw values.
var jsonOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// encode returns the next version of a record for the store.
func (r *Record) encode(now time.Time) (*run.Record, error) {
	data, err := json.Marshal(stored{
		Of:    caller{r.Owner, r.principal, r.front, r.instance},
		Skill: r.Skill, Asked: r.Asked, Args: r.args, Key: r.Key, Source: r.Ref.Source, SkillID: r.Ref.SkillID, Version: r.Ref.Version,
		Execution: r.Ref.ExecutionID, Accepted: r.Ref.Accepted, NotBefore: r.Ref.NotBefore,
		State: r.State, Ended: r.Ended, Free: r.free, Outcome: r.outcome, Small: r.small, Single: r.single, Unkept: r.unkept, Notes: r.Notes,
	}, jsonOptions)
	standing := run.Running
	if !r.Ended.IsZero() || r.free {
		standing = run.Final
	}
	return &run.Record{Owner: r.Owner, ID: r.ID, Event: r.event + 1, At: now, Data: data, Standing: standing}, err
}

// decode returns the record that is stored.
func decode(from *run.Record) (*Record, error) {
	var s stored
	if json.Unmarshal(from.Data, &s, jsonOptions) != nil { // the error may quote it
		return nil, fmt.Errorf("record %s is none of a run: %w", from.ID, run.ErrDamaged)
	}
	return &Record{
		Owner: cmp.Or(from.Owner, s.Of.Owner), ID: from.ID, Skill: s.Skill, Asked: s.Asked, Key: s.Key,
		Ref: run.Ref{
			Source: s.Source, SkillID: s.SkillID, Version: s.Version, ExecutionID: s.Execution, Accepted: s.Accepted, NotBefore: s.NotBefore, Kept: from.ID,
		},
		principal: s.Of.Principal, front: s.Of.Front, instance: s.Of.Instance,
		State: s.State, Ended: s.Ended, Notes: s.Notes, args: s.Args, free: s.Free,
		outcome: s.Outcome, small: s.Small, single: s.Single, unkept: s.Unkept, event: from.Event,
	}, nil
}

// outcome is the JSON of how a run has ended.
type outcome struct {
	Output  jsontext.Value `json:"output,omitzero"`
	Elapsed int64          `json:"elapsed_ns,omitzero"`
	Failure *failure       `json:"failure,omitzero"`
}

// failure is the JSON of a [run.Failure] of a run that has ended.
type failure struct {
	Kind       string         `json:"kind"`
	Phase      run.Phase      `json:"phase,omitzero"`
	By         run.Party      `json:"by,omitzero"`
	Message    string         `json:"message"`
	Advice     string         `json:"advice,omitzero"`
	Executed   run.Executed   `json:"executed"`
	HTTPStatus int            `json:"http_status,omitzero"`
	Lost       bool           `json:"lost,omitzero"`
	Timeout    int64          `json:"timeout_ns,omitzero"`
	Code       string         `json:"code,omitzero"`
	Details    jsontext.Value `json:"details,omitzero"`
	Retry      jsontext.Value `json:"retry,omitzero"`
}

// encodeOutcome returns how a run has ended.
func encodeOutcome(o *run.Run) (jsontext.Value, error) {
	s := outcome{Output: o.Output, Elapsed: int64(o.Elapsed)}
	if f := o.Failure; f != nil {
		p := f.ProviderSaid()
		s.Failure = &failure{
			f.Kind.String(), f.Phase, f.By, f.Message, f.Advice, f.Executed, f.HTTPStatus, f.Lost, int64(f.Timeout), p.Code, p.Details, p.Retry,
		}
	}
	return json.Marshal(&s, jsonOptions)
}

// decodeOutcome returns how the run of a record has ended.
func decodeOutcome(r *Record, data jsontext.Value) (run.Run, error) {
	var s outcome
	if json.Unmarshal(data, &s, jsonOptions) != nil { // as above
		return run.Run{}, fmt.Errorf("the outcome in record %s can't be read: %w", r.ID, run.ErrDamaged)
	}
	o := run.Run{Ref: r.Ref, State: r.State, Output: s.Output, Elapsed: time.Duration(s.Elapsed)}
	if f := s.Failure; f != nil {
		o.Failure = &run.Failure{
			Kind: kindOf(f.Kind), Phase: f.Phase, By: f.By, Message: f.Message, Advice: f.Advice, Ref: r.Ref, Executed: f.Executed,
			HTTPStatus: f.HTTPStatus, Lost: f.Lost, Timeout: time.Duration(f.Timeout),
		}
		if f.Code != "" || f.Details != nil || f.Retry != nil {
			o.Failure.Provider = &run.ProviderError{Code: f.Code, Details: f.Details, Retry: f.Retry}
		}
	}
	return o, nil
}

// kindOf returns the kind of failures of a name.
func kindOf(name string) run.Kind {
	kinds := []run.Kind{
		run.InvalidArguments, run.SkillNotFound, run.AuthRequired, run.PermissionDenied, run.DeadlineExceeded, run.Unreachable, run.VersionIncompatible,
		run.InvalidDocument, run.NotSupported, run.ProviderFault, run.RateLimited, run.Stopped, run.CallerGone, run.CallerCanceled, run.RunFailed,
	}
	if i := slices.IndexFunc(kinds, func(k run.Kind) bool { return k.String() == name }); i >= 0 {
		return kinds[i]
	}
	return run.Internal
}
