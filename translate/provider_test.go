package translate_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

type object = providertest.Object

// descriptor is a valid one, of a skill with one input, with changes.
func descriptor(id string, changes object) object {
	about := object{"name": "A skill", "description": "Does something."}
	city := object{"name": "city", "type": "string", "description": "A city.", "required": true}
	return providertest.Merge(providertest.Skill(id, about, city), changes)
}

func newBridge(t *testing.T, sources ...catalog.Source) *translate.Bridge {
	t.Helper()
	return newBridgeWith(t, nil, sources...)
}

func newBridgeWith(t *testing.T, observer translate.Observer, sources ...catalog.Source) *translate.Bridge {
	t.Helper()
	b, err := translate.New(bridgeConfig(t, observer, sources...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bridgeConfig(t *testing.T, observer translate.Observer, sources ...catalog.Source) translate.Config {
	t.Helper()
	c := providertest.Config(t, sources...)
	c.DefaultTimeout, c.MaxTimeout, c.Observer = 20*time.Second, 40*time.Second, observer
	return c
}
