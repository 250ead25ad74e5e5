//go:build !unix

package testbed

import "errors"

// limitOpenFiles fails: there is no such limit here.
func limitOpenFiles(uint64) error {
	return errors.New("the number of open files can't be limited here")
}
