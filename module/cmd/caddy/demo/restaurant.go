package demo

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// Restaurant is a demo API whose guests have accounts of their own, and the authorization server at which they sign in and consent (OAuth 2.0
// authorization codes with PKCE), of package github.com/zitadel/oidc. It keeps everything in memory.
type Restaurant struct {
	// The scheme, host and port under which bridges and browsers reach this handler.
	Origin string `json:"origin,omitempty"`

	// The OAuth 2.0 client, with the redirect URI of the bridge. Placeholders such as `{env.X}` in the secret are resolved when the configuration loads.
	Client   Client `json:"client,omitzero"`
	Redirect string `json:"redirect,omitempty"`

	login   *op.Provider
	storage *storage.Storage
	mux     *http.ServeMux
}

const restaurantDirective = "skill_bridge_demo_restaurant"

func init() {
	caddy.RegisterModule(new(Restaurant))
	httpcaddyfile.RegisterHandlerDirective(restaurantDirective, func(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		r := new(Restaurant)
		return r, r.UnmarshalCaddyfile(helper.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder(restaurantDirective, httpcaddyfile.Before, "respond")
}

// CaddyModule returns the Caddy module information.
func (*Restaurant) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.skill_bridge_demo_restaurant", New: func() caddy.Module { return new(Restaurant) }}
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	skill_bridge_demo_restaurant [<matcher>] {
//		origin   <url>
//		client   <id> <secret>
//		redirect <url>
//	}
func (h *Restaurant) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	if err := r.NoArgs(); err != nil {
		return err
	}
	return r.Block(restaurantDirective, "", r.Of(h, options.Targets{
		"client": func() error { return r.Args("client", "an id and a secret", 2, &h.Client.ID, &h.Client.Secret) },
	}))
}

// guests are those who have accounts at the restaurant, with one password.
type guests []string

const guestPassword = "hiccup"

func (g guests) GetUserByID(id string) *storage.User { return g.GetUserByUsername(id) }

func (g guests) GetUserByUsername(name string) *storage.User {
	if !slices.Contains(g, name) {
		return nil
	}
	return &storage.User{ID: name, Username: name, Password: guestPassword}
}

func (guests) ExampleClientID() string { return "" }

// scopedStorage lets its clients have the scope of the skill.
type scopedStorage struct{ *storage.Storage }

const scopeBook = "book:reservation"

type scopedClient struct{ op.Client }

func (scopedClient) IsScopeAllowed(scope string) bool { return scope == scopeBook }

// Provision makes the authorization server.
func (h *Restaurant) Provision(caddy.Context) error {
	secret, err := caddy.NewReplacer().ReplaceOrErr(h.Client.Secret, true, true)
	if err != nil {
		return fmt.Errorf("client: secret: %w", err)
	}
	client := storage.WebClient(h.Client.ID, secret, h.Redirect)
	h.storage = storage.NewStorageWithClients(guests{"anna", "ben"}, map[string]*storage.Client{h.Client.ID: client})
	if h.login, err = op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte(secret)), CodeMethodS256: true, GrantTypeRefreshToken: true},
		scopedStorage{h.storage}, op.StaticIssuer(h.Origin), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		return err
	}
	h.mux = http.NewServeMux()
	h.mux.HandleFunc("GET /openapi.yaml", document(restaurantOpenAPI))
	h.mux.HandleFunc("POST /reservations", h.book)
	h.mux.HandleFunc("/login/username", h.signIn)
	h.mux.Handle("/", h.login)
	return nil
}

// GetClientByClientID implements [op.Storage].
func (s scopedStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := s.Storage.GetClientByClientID(ctx, id)
	return scopedClient{client}, err
}

//go:embed restaurant/openapi.yaml
var restaurantOpenAPI string

//go:embed restaurant/login.html
var loginHTML string

var loginPage = template.Must(template.New("login").Parse(loginHTML))

// signIn shows the page on which guests sign in and consent, and takes its form.
func (h *Restaurant) signIn(w http.ResponseWriter, r *http.Request) {
	id, fault := r.FormValue("authRequestID"), ""
	if r.Method == http.MethodPost {
		if h.storage.CheckUsernamePassword(r.PostFormValue("guest"), r.PostFormValue("password"), id) == nil {
			http.Redirect(w, r, h.Origin+"/authorize/callback?id="+template.URLQueryEscaper(id), http.StatusFound)
			return
		}
		fault = "There is no such guest, or the password is wrong."
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = loginPage.Execute(w, object{"ID": id, "Fault": fault, "Guests": guests{"anna", "ben"}, "Password": guestPassword}) // the client is gone
}

// book books a table for the guest whose token the request has.
func (h *Restaurant) book(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	text, err := h.login.Crypto().Decrypt(token)
	id, guest, _ := strings.Cut(text, ":")
	known := new(oidc.IntrospectionResponse)
	if err == nil {
		err = h.storage.SetIntrospectionFromToken(r.Context(), known, id, guest, h.Client.ID)
	}
	if err != nil || !slices.Contains(known.Scope, scopeBook) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		refuse(w, http.StatusUnauthorized, failure{Code: codeAuth, Message: "Tables are booked for guests who are signed in"})
		return
	}
	operation(reservation{}, func(in reservation) (any, *failure) {
		return object{"booked_for": guest, "people": in.People, "time": in.Time}, nil
	})(w, r)
}

// A reservation is the input of book.
type reservation struct {
	Time   string `json:"time"`
	People int    `json:"people"`
}

// ServeHTTP answers a request.
func (h *Restaurant) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.mux.ServeHTTP(w, r)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Restaurant)(nil)
	_ caddyhttp.MiddlewareHandler = (*Restaurant)(nil)
)
