package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"

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
	wanted, ok := readPurgeRequest(http.MaxBytesReader(w, r.Body, maxPurgeRequest))
	if !ok {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errPurgeRequest}
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

var errPurgeRequest = errors.New("the body is a JSON object with namespace and skill_id, which are strings that are not empty; without skill_id, " +
	"all documents of the source are removed, and with {} those of all sources")

// readPurgeRequest reads what to remove. It refuses every other body, because a mistake
// in a script, such as null for a variable that is not set, must not remove everything.
func readPurgeRequest(body io.Reader) (wanted PurgeRequest, ok bool) {
	var text jsontext.Value
	var members struct {
		Namespace jsontext.Value `json:"namespace"`
		SkillID   jsontext.Value `json:"skill_id"`
	}
	if jsonv2.UnmarshalRead(body, &text) != nil || text.Kind() != '{' || jsonv2.Unmarshal(text, &members, jsonv2.RejectUnknownMembers(true)) != nil {
		return wanted, false
	}
	ok = members.Namespace != nil || members.SkillID == nil
	for _, m := range []struct {
		value jsontext.Value
		to    *string
	}{{members.Namespace, &wanted.Namespace}, {members.SkillID, &wanted.SkillID}} {
		ok = ok && (m.value == nil || m.value.Kind() == '"' && jsonv2.Unmarshal(m.value, m.to) == nil && *m.to != "")
	}
	return wanted, ok
}

// notPurged returns the error that says why nothing was removed.
func notPurged(wanted *PurgeRequest, known bool) error {
	if known {
		return fmt.Errorf("no document of a skill %q of source %q is cached: there is no such skill, or it was not requested yet", wanted.SkillID, wanted.Namespace)
	}
	return fmt.Errorf("there is no source %q", wanted.Namespace)
}
