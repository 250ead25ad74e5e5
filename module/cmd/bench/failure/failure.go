// Package failure ends a measurement with an error, because an incomplete one is useless.
package failure

// SectionError is the panic value with which an error ends a section.
type SectionError struct{ error }

// Unwrap returns the error.
func (f SectionError) Unwrap() error { return f.error }

// Check panics with a SectionError if err is not nil.
func Check(err error) {
	if err != nil {
		panic(SectionError{err})
	}
}

// Must returns the value, and panics with a SectionError if err is not nil.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}
