package runtokens

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// record is the JSON with the keys of run tokens in the database.
type record struct {
	Version int         `json:"version"`
	Keys    []storedKey `json:"keys"`
}

type storedKey struct {
	ID     [4]byte   `json:"id"`     // in base64
	Secret [32]byte  `json:"secret"` // not a runtoken.Secret, which marshals as "[redacted]"
	Made   time.Time `json:"made"`
}

const (
	recordVersion = 1
	// maxRecord is the largest record that is read, in bytes: enough for several hundred keys.
	maxRecord = 64 << 10
)

// A record that can't be read is never overwritten: that would invalidate the tokens of
// other instances. These errors say what to do instead. They do not wrap errors of
// package json, which quote the record and so its secrets.
var (
	errOtherVersion  = errors.New("the keys of run tokens in the database were written by another version of the bridge: use that version, or remove them, " + removal)
	errDamaged       = errors.New("the keys of run tokens in the database are damaged: restore them, or remove them, " + removal)
	errDamagedSecret = errors.New("the secret in the database that principal_hash is made with is damaged: restore it, or remove it, " +
		"which changes all hashes: DELETE FROM things WHERE kind = '" + secretKind + "'")
)

const removal = "which makes all run tokens invalid: DELETE FROM things WHERE kind = '" + kind + "'"

func marshal(keys []runtoken.Key) ([]byte, error) {
	file := record{Version: recordVersion}
	for _, key := range keys {
		file.Keys = append(file.Keys, storedKey{key.ID, key.Secret(), key.Made})
	}
	return json.Marshal(file)
}

func parse(data []byte) ([]runtoken.Key, error) {
	if len(data) > maxRecord {
		return nil, errDamaged
	}
	var other struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &other) != nil || other.Version < recordVersion {
		return nil, errDamaged
	}
	if other.Version > recordVersion {
		return nil, errOtherVersion
	}
	var file record
	if json.Unmarshal(data, &file, json.RejectUnknownMembers(true)) != nil || len(file.Keys) == 0 {
		return nil, errDamaged
	}
	keys := make([]runtoken.Key, 0, len(file.Keys))
	for _, stored := range file.Keys {
		_, twice := findKey(keys, stored.ID)
		if twice || stored.Secret == [32]byte{} || stored.Made.IsZero() {
			return nil, errDamaged
		}
		keys = append(keys, runtoken.RestoreKey(stored.ID, stored.Secret, stored.Made))
	}
	return keys, nil
}
