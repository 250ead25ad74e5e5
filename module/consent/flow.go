package consent

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	cookiePrefix, hostPrefix = "skill_bridge_flow_", "__Host-"
	// maxFlows is how many flows a browser may have at a time.
	maxFlows = 8
	// maxCookie is how large browsers let a cookie be, with its name and without its attributes, in bytes.
	maxCookie = 4096
)

var errScopes = errors.New("the scopes of this provider are too many for a cookie: ask the operator of the bridge to write the option scopes")

// cookie returns the cookie of the flow of a source. Without a value, the browser deletes it.
func (h *Handler) cookie(namespace, value string, life time.Duration) *http.Cookie {
	sum := sha256.Sum256([]byte(namespace))
	c := &http.Cookie{ //nolint:gosec // it is not Secure over HTTP on this machine only
		Name: cookiePrefix + hex.EncodeToString(sum[:4]), Value: value, MaxAge: cmp.Or(int(life.Seconds()), -1),
		Path: "/", HttpOnly: true, Secure: h.url.Scheme == "https", SameSite: http.SameSiteLaxMode,
	}
	if c.Secure {
		c.Name = hostPrefix + c.Name
	}
	return c
}

// begin sends the browser to the authorization server. The flow is only in a cookie, so that any instance with the same seal_key finishes it.
func (v *visit) begin(s *source) {
	if s.Problem != "" {
		v.fail(http.StatusServiceUnavailable, s.Problem)
		return
	}
	to, flow, err := s.oauth.Begin(v.r.Context(), s.authentication, v.Redirect(s.Namespace), strings.Fields(s.Asked))
	if err != nil {
		v.fail(http.StatusBadGateway, v.trouble(s.Namespace, err))
		return
	}
	text, err := json.Marshal(flow)
	sealed := ""
	if err == nil {
		sealed, err = v.sealer.SealText(v.r.Context(), string(text), v.realm, s.Namespace)
	}
	own := v.cookie(s.Namespace, sealed, time.Until(flow.Expires))
	if err != nil || len(own.Name)+len(own.Value) > maxCookie {
		v.fail(http.StatusBadGateway, v.trouble(s.Namespace, errScopes))
		return
	}
	var others []string // browsers send the oldest first (RFC 6265, section 5.4)
	for _, c := range v.r.Cookies() {
		if strings.HasPrefix(strings.TrimPrefix(c.Name, hostPrefix), cookiePrefix) && c.Name != own.Name {
			others = append(others, c.Name)
		}
	}
	old := v.cookie("", "", 0) //nolint:gosec // as above
	for _, name := range others[:max(0, len(others)-maxFlows+1)] {
		old.Name = name
		http.SetCookie(v.w, old)
	}
	http.SetCookie(v.w, own)
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
}

// flow returns the flow that the browser has begun and that a callback with this state belongs to, or why there is none.
func (v *visit) flow(state string) (flow *credentials.Flow, problem string) {
	const advice = " Open the page of the account, and connect it from there."
	sent := v.r.CookiesNamed(v.cookie(v.namespace, "", 0).Name)
	if len(sent) != 1 || v.sealer == nil {
		return nil, "This browser has begun nothing that this link could finish." + advice
	}
	text, _, err := v.sealer.OpenText(v.r.Context(), sent[0].Value, v.realm, v.namespace)
	flow = new(credentials.Flow)
	switch {
	case err != nil || json.Unmarshal([]byte(text), flow) != nil || flow.Namespace != v.namespace:
		if v.principal != "" && len(v.sources(v.r.Context(), v.principal, v.namespace)) > 0 { // strangers can send any cookie
			v.Failed(v.r.Context(), v.namespace, "the cookie of what the browser has begun can't be opened: an instance with another seal_key has made it, or it was changed")
		}
		return nil, "What this browser has begun can’t be finished here." + advice
	case !time.Now().Before(flow.Expires):
		return nil, "It took more than ten minutes." + advice
	case subtle.ConstantTimeCompare([]byte(flow.State), []byte(state)) != 1:
		return nil, "This link is not for what this browser has begun last." + advice
	}
	return flow, ""
}

// refusal returns what the page says about an error of an authorization server (RFC 6749, section 4.1.2.1), and tells the operator, unless the user has
// decided so. Nothing else of such an answer is shown or logged.
func (v *visit) refusal(code string) string {
	f := &run.Failure{Kind: run.PermissionDenied, Message: "The provider refuses the request of this bridge."}
	f.Advice = run.AskOperator + " to check the client that is registered there: its id, redirect URI and scopes."
	switch code {
	case "access_denied":
		return "You, or the provider, did not allow it. Nothing was connected."
	case "server_error", "temporarily_unavailable":
		f.Message, f.Advice = "The login of the provider is not available at the moment ("+code+"). Try again later.", ""
	case "invalid_request", "invalid_scope", "invalid_target", "unauthorized_client", "unsupported_response_type":
		f.Message = strings.Replace(f.Message, ".", " ("+code+").", 1)
	}
	return v.trouble(v.namespace, f)
}

// finish answers the request to which an authorization server sends the browser back.
func (v *visit) finish() {
	query := v.r.URL.Query()
	for _, name := range []string{"code", "state", "error", "iss"} {
		if len(query[name]) > 1 {
			v.fail(http.StatusBadRequest, "The link says "+name+" twice.")
			return
		}
	}
	flow, problem := v.flow(query.Get("state"))
	switch {
	case problem != "":
		v.fail(http.StatusBadRequest, problem)
		return
	case v.principal == "": // a login with a cookie that browsers do not send after a link of another site (SameSite=Strict)
		v.Failed(v.r.Context(), v.namespace, "the request with which a user came back from the provider has no principal, so that the user had to click Continue: "+
			"the cookie of the login in front of connect is SameSite=Strict, as it seems; make it Lax")
		v.page.Continue = template.URL("?" + query.Encode()) //nolint:gosec // a query, encoded
		v.show(http.StatusOK)
		return
	}
	found, finished := v.sources(v.r.Context(), v.principal, v.namespace), v.cookie(v.namespace, "", 0)
	switch {
	case !flow.Of(v.principal, v.namespace):
		http.SetCookie(v.w, finished)
		v.refused(v.r.Context(), v.principal, "another principal has begun what it finishes")
		v.fail(http.StatusForbidden, "Another user of this bridge has begun this. Nothing was connected.")
		return
	case len(found) == 0 || found[0].denied:
		v.unknown()
		return
	}
	s := found[0]
	if v.look(s, nil); s.authentication.Auth == nil && s.oauth.TokenURL == "" { // no descriptor says where the code is sent
		v.fail(http.StatusServiceUnavailable, "Nothing was connected. "+s.Problem) // the cookie stays, so that the user can load the page again
		return
	}
	http.SetCookie(v.w, finished)
	err := s.oauth.CheckIssuer(v.r.Context(), s.authentication, query.Get("iss"), query.Has("iss"))
	switch {
	case err != nil:
	case query.Has("error") || query.Get("code") == "":
		v.fail(http.StatusBadRequest, v.refusal(query.Get("error")))
		return
	default:
		err = s.oauth.Finish(v.r.Context(), s.authentication, flow, query.Get("code"))
	}
	switch {
	case err == nil:
		v.Given(v.principal, v.namespace, flow.Scopes)
		http.Redirect(v.w, v.r, s.Link, http.StatusSeeOther)
	case errors.Is(err, credentials.ErrFinished): // the browser was reloaded: no fault of the provider's, and the account may be connected
		v.fail(http.StatusBadRequest, "This was finished before, and changed nothing now.")
	default:
		v.fail(http.StatusBadGateway, "Nothing was connected. "+v.trouble(s.Namespace, err))
	}
}
