package storage

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// runTokenFile is the JSON file with the keys of run tokens in Caddy's storage.
type runTokenFile struct {
	Version int              `json:"version"`
	Keys    []storedTokenKey `json:"keys"`
}

type storedTokenKey struct {
	ID     [4]byte   `json:"id"`     // in base64
	Secret [32]byte  `json:"secret"` // not a runtoken.Secret, which marshals as "[redacted]"
	Made   time.Time `json:"made"`
}

const (
	runTokenFileVersion = 1
	// maxRunTokenFile is the largest file that is read, in bytes: enough for several hundred keys.
	maxRunTokenFile = 64 << 10
)

// A file that can't be read is never overwritten: that would invalidate the tokens of
// other instances. These errors say what to do instead. They do not wrap errors of
// package json, which quote the file and so its secrets.
var (
	errRunTokenKeysVersion = errors.New(runTokenKeysKey + " in Caddy's storage was written by another version of the bridge: use that version, or remove it, which makes all run tokens invalid")
	errRunTokenKeysDamaged = errors.New(runTokenKeysKey + " in Caddy's storage is damaged: restore it, or remove it, which makes all run tokens invalid")
)

func marshalRunTokenKeys(keys []runtoken.Key) ([]byte, error) {
	file := runTokenFile{Version: runTokenFileVersion}
	for _, key := range keys {
		file.Keys = append(file.Keys, storedTokenKey{key.ID, key.Secret(), key.Made})
	}
	return json.Marshal(file)
}

func parseRunTokenKeys(data []byte) ([]runtoken.Key, error) {
	if len(data) > maxRunTokenFile {
		return nil, errRunTokenKeysDamaged
	}
	var other struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &other) != nil || other.Version < runTokenFileVersion {
		return nil, errRunTokenKeysDamaged
	}
	if other.Version > runTokenFileVersion {
		return nil, errRunTokenKeysVersion
	}
	var file runTokenFile
	if json.Unmarshal(data, &file, json.RejectUnknownMembers(true)) != nil || len(file.Keys) == 0 {
		return nil, errRunTokenKeysDamaged
	}
	keys := make([]runtoken.Key, 0, len(file.Keys))
	for _, stored := range file.Keys {
		_, twice := findKey(keys, stored.ID)
		if twice || stored.Secret == [32]byte{} || stored.Made.IsZero() {
			return nil, errRunTokenKeysDamaged
		}
		keys = append(keys, runtoken.RestoreKey(stored.ID, stored.Secret, stored.Made))
	}
	return keys, nil
}
