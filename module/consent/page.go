package consent

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(browse.Template("page.html", pageSource))

// ownStyle is what the style sheet of browse lacks.
const ownStyle = `.account{max-width:46rem;padding:1rem;margin-bottom:1.25rem}.account>*+*{margin-top:.75rem}.account h2,.account h2 a{color:inherit}.scopes li+li{margin-top:.25rem}` +
	`a.button{display:inline-block;min-height:44px;padding:.55rem 1.1rem;border:1px solid var(--accent);border-radius:6px;background:var(--accent);color:var(--on-accent);font-weight:600;text-decoration:none}`

// page is the data of the template. All texts of others in it are bounded and have no control characters.
type page struct {
	Name, Principal, Nonce, Home, User string // User tells apart principals in forms
	Style                              template.CSS
	Problem                            string       // why nothing is shown, or what has failed; empty: there is no problem
	Continue                           template.URL // the link of a page that asks to go on
	Back                               string       // the link of a page that says what has failed
	Sources                            []*source
}

// source is a source of which users have accounts, as one of them sees it.
type source struct {
	*catalog.Section
	Link, Provider, Host string // Host is that of the authorization server
	Grant                *credentials.Grant
	Scopes               []scope // for which Connect asks
	Asked                string  // their names
	Wanting              bool    // some of them are not granted, or there is no grant
	Problem              string  // why the account can't be connected now; empty: it can

	denied         bool // the access rules deny it to the user
	oauth          *credentials.OAuth2User
	authentication *credential.Authentication
	form           string // the origin of the authorization server
}

// scope is what an account may be used for.
type scope struct {
	Name, Text string
	Granted    bool
}

// Bounds of what pages show, and of the work for one. They are those of browse.
const (
	maxShownName = 200
	maxShownText = 500
	maxSkills    = 200
	maxDocuments = 8 << 20
	maxWait      = 10 * time.Second
)

// look finds out what the page of a source shows: the grant, and what its descriptors ask for, which it reads as a page of browse does; as many more as name
// all scopes of a link, if there are any.
func (v *visit) look(s *source, link []string) {
	ctx := credential.WithOwner(v.r.Context(), v.principal)
	reading, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	caller := run.Caller{Principal: v.principal}
	listing := v.bridge.List(reading, translate.Query{Caller: caller, Namespace: s.Namespace})
	var auths []*document.Auth
	var names []string
	var err error
	texts, left := map[string]string{}, listing.Skills
	for more := true; more; {
		skills := left[:min(len(left), maxSkills)]
		left = left[len(skills):]
		translate.ReadDescriptors(reading, v.bridge, caller, skills, maxDocuments)
		for i := range skills {
			d := skills[i].Status(reading, v.principal).Skill
			if d == nil || d.Auth.OAuth2 == nil || s.Client.WithoutCredential(d) != nil { // perhaps a stranger wrote it
				continue
			}
			if len(auths) == 0 {
				s.authentication.Auth, s.Provider = &d.Auth, safetext.TrimmedLine(d.Provider.Name, maxShownName)
			}
			auths = append(auths, &d.Auth)
			for name, text := range d.Auth.OAuth2.Scopes {
				texts[name] = cmp.Or(texts[name], safetext.TrimmedLine(text, maxShownText))
			}
		}
		if s.Grant, err = s.oauth.Grant(ctx, v.principal, auths...); err != nil {
			s.Problem = v.trouble(s.Namespace, err)
			return
		}
		names = s.oauth.Asks(ctx, link, auths, s.Grant)
		unnamed := slices.ContainsFunc(link, func(scope string) bool { return !slices.Contains(names, scope) })
		more = (unnamed || len(auths) == 0) && len(left) > 0 && reading.Err() == nil
	}
	to, err := s.oauth.AuthorizationEndpoint(s.authentication)
	missing := s.oauth.Missing(ctx, v.principal, s.authentication.Auth, nil, s.Auths)
	s.Asked, s.Wanting = strings.Join(names, " "), s.Grant == nil
	switch {
	case s.denied:
		s.Problem = "You may not use this provider here any more, so that you can only disconnect your account."
	case len(auths) == 0 && len(listing.Unavailable) > 0:
		s.Problem = "The bridge can’t read at the moment what this provider asks for. Try again later."
	case len(auths) == 0:
		s.Problem = "No skill of this provider needs an account now."
	case err != nil:
		s.Problem = v.trouble(s.Namespace, err)
	case missing != nil && missing.Next() == run.NextAskOperator:
		s.Problem = v.trouble(s.Namespace, missing)
	case len(s.Asked) > maxCookie:
		s.Problem = v.trouble(s.Namespace, errScopes)
	default:
		s.Host, s.form = safetext.TrimmedLine(to.Host, maxShownName), browse.SourceOf(to)
	}
	for _, name := range names {
		granted := s.Grant != nil && slices.Contains(s.Grant.Scopes, name)
		s.Wanting = s.Wanting || !granted
		s.Scopes = append(s.Scopes, scope{safetext.TrimmedLine(name, maxShownName), texts[name], granted})
	}
}

// fail answers with a page that says what has failed.
func (v *visit) fail(status int, problem string) {
	v.page.Problem = problem
	if v.page.Sources = nil; v.namespace != "" && status != http.StatusNotFound {
		v.page.Back = v.link(v.namespace)
	}
	v.show(status)
}

// show answers with the page. Its policy lets the browser apply nothing but the page's own style, send forms only to the bridge and to the logins to
// which it sends the browser on, and show the page in no frame.
func (v *visit) show(status int) {
	p, forms := &v.page, []string{"'self'"}
	p.Name, p.Home, p.Nonce, p.Style = safetext.TrimmedLine(cmp.Or(v.Name, v.url.Host), maxShownName), v.link(""), rand.Text(), template.CSS(browse.Style+ownStyle) //nolint:gosec // the module's own texts
	for _, s := range p.Sources {
		if s.Problem == "" {
			forms = append(forms, s.form)
		}
	}
	_ = browse.Send(v.w, status, pageTemplate, p, p.Nonce, "form-action "+strings.Join(forms, " ")) // it has no function that fails
}

// trouble tells the operator that something has failed at a source, and returns what the page says about it.
func (v *visit) trouble(namespace string, err error) string {
	f, ok := errors.AsType[*run.Failure](err)
	switch {
	case !ok:
		v.Failed(v.r.Context(), namespace, err.Error())
		return "It failed: " + safetext.TrimmedLine(err.Error(), maxShownText) + "."
	case f.Kind == run.Internal:
		v.Failed(v.r.Context(), namespace, fmt.Sprintf("the database of the bridge can't be used: %v", f.Cause))
		return "This bridge can’t use its database at the moment. Try again later; if that does not help, tell its operator."
	}
	v.Failed(v.r.Context(), namespace, f.OperatorText())
	text := f.Text()
	if f.Retry != nil {
		text += " Try again later."
	}
	return safetext.TrimmedLine(text, maxShownText)
}
