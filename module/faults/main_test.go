package faults_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
