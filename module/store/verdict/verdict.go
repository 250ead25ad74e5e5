// Package verdict says what errors of databases mean: what the operator has to do, and what a statement may have done.
package verdict

// Verdict is what an error of a database means.
type Verdict struct {
	// Advice says what the operator has to do.
	Advice string
	// Full says that the database can still be read.
	Full bool
	// Refused says that the database has refused a transaction because of another one, so that it can be tried again.
	Refused bool
	// Unsure says that a statement that writes may have had its effect.
	Unsure bool
	// Tables says that tables are not as they should be: what uses others says nothing about them.
	Tables bool
	// Gone says that the connection broke. Another one may work.
	Gone bool
}

// Error is an error whose text and advice say what is wrong.
type Error struct{ Text, Advice string }

// Error implements error.
func (e *Error) Error() string { return e.Text }

// AdviceSlow is the advice for a statement whose time was over.
const AdviceSlow = "The database did not answer in time. Look at its load, its disk and the network."

// Mark marks the error of a verdict as one that does not end by itself, unless it most likely does: package run asks it for
// the advice to callers.
func (v *Verdict) Mark(err error) error {
	if v.Gone || v.Refused || v.Advice == AdviceSlow {
		return err
	}
	return &lastingError{err}
}

// lastingError is the error of a database that can't be used until the operator has done something.
type lastingError struct{ error }

// NeedsOperator tells package run what the error is.
func (*lastingError) NeedsOperator() bool { return true }

// Unwrap returns the error.
func (l *lastingError) Unwrap() error { return l.error }
