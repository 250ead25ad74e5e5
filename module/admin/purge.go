package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
)

// PurgeRequest says what to remove: a descriptor, the documents of a source, or,
// if both are empty, all documents.
type PurgeRequest struct {
	Namespace string `json:"namespace,omitempty"`
	SkillID   string `json:"skill_id,omitempty"`
}

// PurgeAnswer says whose documents were removed.
type PurgeAnswer struct {
	Purged []string `json:"purged"` // namespaces
}

const maxPurgeRequest = 64 << 10 // bytes

func (adminAPI) purge(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return methodError(w, r, http.MethodPost)
	}
	wanted, err := readPurgeRequest(http.MaxBytesReader(w, r.Body, maxPurgeRequest))
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	answer, known := PurgeAnswer{Purged: []string{}}, false
	for _, b := range observe.Live() {
		for _, s := range b.Sources() {
			if wanted.Namespace != "" && wanted.Namespace != s.Namespace {
				continue
			}
			known = true
			if b.Catalog().Purge(r.Context(), s.Namespace, wanted.SkillID) {
				answer.Purged = append(answer.Purged, s.Namespace)
			}
		}
	}
	if len(answer.Purged) == 0 && wanted.Namespace != "" {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: notPurged(&wanted, known)}
	}
	return writeAdmin(w, answer)
}

// readPurgeRequest reads what to remove. It refuses every other body, because a mistake
// in a script, such as null for a variable that is not set, must not remove everything.
func readPurgeRequest(body io.Reader) (wanted PurgeRequest, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return wanted, fmt.Errorf("reading the body: %w", err)
	}
	switch text := jsontext.Value(data); {
	case len(bytes.TrimSpace(data)) == 0:
		return wanted, errors.New("the body is empty; {} removes all documents")
	case text.Kind() != jsontext.KindBeginObject:
		return wanted, errors.New("the body is not a JSON object; {} removes all documents")
	}
	var members struct {
		Namespace jsontext.Value            `json:"namespace"`
		SkillID   jsontext.Value            `json:"skill_id"`
		Others    map[string]jsontext.Value `json:",embed"`
	}
	if err := jsonv2.Unmarshal(data, &members); err != nil {
		return wanted, errors.New("the body is not a JSON object, or has a duplicate member; {} removes all documents")
	}
	if len(members.Others) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(members.Others)))
		return wanted, fmt.Errorf("unknown member %q; the members are namespace and skill_id", shown(name))
	}
	if wanted.Namespace, err = purgeMember("namespace", members.Namespace); err != nil {
		return wanted, err
	}
	if wanted.SkillID, err = purgeMember("skill_id", members.SkillID); err != nil {
		return wanted, err
	}
	if wanted.SkillID != "" && wanted.Namespace == "" {
		return wanted, errors.New("skill_id without namespace: name the source of the skill")
	}
	return wanted, nil
}

// purgeMember reads an optional member, which must not be empty.
func purgeMember(name string, value jsontext.Value) (text string, err error) {
	if value == nil {
		return "", nil
	}
	if value.Kind() == jsontext.KindString {
		err = jsonv2.Unmarshal(value, &text)
	}
	if err != nil || text == "" {
		return "", fmt.Errorf("%s is empty or not a string; leave it out to select all", name)
	}
	return text, nil
}

// notPurged returns the error that says why nothing was removed.
func notPurged(wanted *PurgeRequest, known bool) error {
	if known {
		return fmt.Errorf("no document of a skill %q of source %q is cached: there is no such skill, or it was not requested yet", wanted.SkillID, wanted.Namespace)
	}
	return fmt.Errorf("there is no source %q", wanted.Namespace)
}
