package sources

import (
	"fmt"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
)

// Values of on_change.
const (
	onChangeWarn = "warn"
	onChangeHold = "hold"
	onChangeOff  = "off"
)

func checkOnChange(value string) error {
	if value == "" || slices.Contains([]string{onChangeWarn, onChangeHold, onChangeOff}, value) {
		return nil
	}
	return fmt.Errorf("on_change %q is not one of warn, hold, off", value)
}

// Guard gives the loaded sources their guards, which report changed descriptors. Without a database, no change is held.
func (from *Sources) Guard(db *store.DB, loaded []catalog.Source, report func(source string, c changes.Change)) {
	for i, s := range from.sources() {
		to := &loaded[i]
		config := changes.Config{Single: to.Kind == catalog.SkillSource, Report: func(c changes.Change) { report(to.Namespace, c) }}
		switch {
		case s.onChange == onChangeOff, to.Kind == catalog.SiteSource:
			continue
		case s.onChange == onChangeHold && db != nil:
			config.Store = newDescriptors(db.Things(), fmt.Sprintf("%d\n%s\n%s", to.Kind, to.Namespace, to.URL))
		}
		to.Guard = changes.New(config)
	}
}
