package keptcalls_test

import (
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/keptcallstest"
)

type instance = keptcallstest.Instance

var (
	owner, bob      = keptcallstest.Ada, keptcallstest.Bob
	start, provider = keptcallstest.Start, keptcallstest.Provider
	waits, expect   = keptcallstest.Waits, keptcallstest.Expect
)
