package run_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// A final record is newer than all others.
func TestVersions(t *testing.T) {
	ascending := []run.Version{
		{},
		{Event: 1, Standing: run.Running},
		{Event: 1, Standing: run.Waiting},
		{Event: 2, Standing: run.Running},
		{Event: 9, Standing: run.Waiting},
		{Event: 1, Standing: run.Final},
		{Event: 2, Standing: run.Final},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := a.Compare(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v, %v: %d", a, b, got)
			}
		}
	}
}
