package changes

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is a descriptor that is kept: the one in use, or the one that is held.
type Record struct {
	SkillID string `json:"skill_id"`
	// Names are those that callers knew the skill by when the record was made.
	Names []string `json:"names,omitempty"`
	// Instead is the key of the skill that had one of the names before. It is used until the descriptor, which is held, is approved. Empty: it is
	// the same skill.
	Instead string `json:"instead,omitempty"`
	// At is when it was first seen or, of the one in use, approved.
	At time.Time `json:"at"`
	// Digests are those of what the descriptors in use ask for, the newest first: earlier ones were approved, too, so that a provider may
	// return to them. A held one has one digest.
	Digests []string `json:"digests"`
	// Document is the descriptor as published, URL where it came from, and Way the redirects to it.
	Document jsontext.Value `json:"document"`
	URL      string         `json:"url"`
	Way      []string       `json:"way,omitempty"`

	// Version is that of the stored record; 0: it is not stored.
	Version int64 `json:"-"`
}

// Owners are the skills that may have a name.
type Owners struct {
	IDs     []string // the newest first
	Version int64    // of what is stored; 0: nothing is
}

// maxDigests bounds the digests of a record.
const maxDigests = 8

// Kind says what a record is about.
type Kind string

// The kinds of records.
const (
	InUse  Kind = "descriptors_used" // the descriptor that is in use
	OnHold Kind = "descriptors_held" // one that waits for approval
)

// Store keeps the records of the skills of one source, one of each kind for a skill. It may be shared with other processes.
type Store interface {
	// Name returns the name of the records of a skill, and Names those of all records of a kind.
	Name(id string) string
	Names(ctx context.Context, kind Kind) ([]string, error)
	// Get returns a record; nil: there is none.
	Get(ctx context.Context, kind Kind, name string) (*Record, error)
	// Put stores a record, if the stored one has its version. Otherwise another process has stored one in between.
	Put(ctx context.Context, kind Kind, name string, r *Record) (stored bool, err error)
	// Drop removes a record that is on hold.
	Drop(ctx context.Context, name string) error
	// Owners returns the skills that may have a name, and Own stores them, if what is stored has their version.
	Owners(ctx context.Context, name string) (Owners, error)
	Own(ctx context.Context, name string, o Owners) (stored bool, err error)
}

// Errors of [Guard.Approve].
var (
	ErrNotHeld = errors.New("no change of this skill is held")
	ErrOther   = errors.New("the provider has changed the descriptor again: look at the change first")
)
