package options

import "strconv"

// ConfigError is an error about a value of a configuration.
type ConfigError struct {
	Path  string // of the value in the JSON config, such as providers[0].origin
	Owner string // the operator's name for the block that has the value; may be empty
	Err   error
}

func (e *ConfigError) Error() string {
	if e.Owner == "" {
		return e.Path + ": " + e.Err.Error()
	}
	return e.Path + " (" + e.Owner + "): " + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// Element returns the JSON path of an element of a list.
func Element(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }
