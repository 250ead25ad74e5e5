//go:build !unix

package testbed

import "errors"

// limitOpenFiles fails: this system has no such limit.
func limitOpenFiles(uint64) error {
	return errors.New("the number of open files can't be limited here")
}
