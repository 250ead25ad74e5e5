package discovery

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// CheckMediaType checks that the media type of a document is JSON (section 4.3.1). So a file that
// users may upload to a provider's host, such as an image, can't be a descriptor. Some hosts serve
// such files without a type, so a descriptor must have one. An index may have none: only its host can
// publish something at its URL.
func CheckMediaType(phase run.Phase, h http.Header) *run.Failure {
	value := h.Get("Content-Type")
	if value == "" && phase == run.PhaseDiscovery {
		return nil
	}
	if mediaType, _, err := mime.ParseMediaType(value); err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")) {
		return nil
	}
	served := "without a media type"
	if value != "" {
		served = fmt.Sprintf("as %q", safetext.Clip(value, 100))
	}
	return document.Unusable(phase, fmt.Sprintf("The provider's %s is served %s, not as application/json.", document.AnswerName(phase), served), run.Violation{
		Message: "must be served as application/json", Expected: jsonvalue.Quoted("application/json"), Actual: jsonvalue.Quoted(safetext.Clip(value, 100)),
	})
}
