package attacks_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
)

func TestMain(m *testing.M) { hostile.Main(m) }
