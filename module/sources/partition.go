package sources

import (
	"encoding/json" // for Caddy's raw modules
	"slices"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

// partition returns the cache partition of a source that reads documents with these credentials over
// this transport. Different sources have different partitions, so that failures and validation
// results of one do not affect the other. The same source has the same partition after a reload
// and in several sites. The trusted hosts are part of the key, because they decide which requests
// carry discovery credentials.
func partition(s *catalog.Source, credentials, transport json.RawMessage) (string, error) {
	d := lifetime.NewDigest(strconv.Itoa(int(s.Kind)), s.Namespace, s.URL.String(), string(transport))
	if len(credentials) == 0 && !s.Certificate {
		return d.String(), nil
	}
	d.Add(strconv.Itoa(len(s.Trust)))
	d.Add(slices.Sorted(slices.Values(s.Trust))...)
	texts, err := resolvedTexts(credentials)
	if err != nil {
		return "", err
	}
	d.Add(texts...)
	return d.String(), nil
}
