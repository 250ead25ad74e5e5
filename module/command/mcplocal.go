package command

import (
	"bytes"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/command/standalone"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

const (
	// localPath is the path of the MCP endpoint of a bridge in this process.
	localPath = "/mcp"
	// localPrincipal is the principal of the client at standard input and output.
	localPrincipal = "local"
	handlerName    = "skill_bridge"
)

// localBridge is the configuration of a bridge in this process.
type localBridge struct {
	handler json.RawMessage // of http.handlers.skill_bridge
	storage json.RawMessage // the module; nil: the default
}

// ofProviders returns a bridge for providers.
func (r *providerFlags) ofProviders(origins []string) (*localBridge, error) {
	switch {
	case len(origins) > 1 && r.namespace != "":
		return nil, errors.New("--namespace needs exactly one provider; for several, write a Caddyfile with a namespace for each, and use --config")
	case len(origins) > 1 && r.credentials.Kind() != "":
		return nil, errors.New(r.credentials.Kind() + " needs exactly one provider; for several, write a Caddyfile with credentials for each, and use --config")
	}
	config, err := r.handler(origins...)
	if err != nil {
		return nil, err
	}
	if err := config.CheckNamespaces(); err != nil {
		return nil, err
	}
	config.AllowAnonymous = true // the user of the command has the key
	config.MCP = json.RawMessage(`{"path":"` + localPath + `"}`)
	return &localBridge{handler: caddyconfig.JSON(config, nil)}, nil
}

// ofFile returns the first bridge of a configuration file.
func ofFile(file, adapter string) (*localBridge, error) {
	if file == "-" {
		return nil, errors.New("--config - is not possible, since standard input has the messages of the client: name a file")
	}
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, err
	}
	var config struct {
		Storage json.RawMessage `json:"storage"`
		Apps    struct {
			HTTP struct {
				Servers map[string]json.RawMessage `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("--config %s: %w", file, err)
	}
	var found []map[string]json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(config.Apps.HTTP.Servers)) {
		found = appendBridges(found, config.Apps.HTTP.Servers[name])
	}
	found = slices.CompactFunc(found, func(a, b map[string]json.RawMessage) bool { // one site on several addresses
		return maps.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("--config %s has no %s", file, handlerName)
	}
	if len(found) > 1 {
		caddy.Log().Named("skill_bridge.mcp").Warn("the configuration has several bridges; the first is used", zap.Int("bridges", len(found)))
	}
	handler, err := mountOnly(found[0])
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", file, err)
	}
	return &localBridge{handler, config.Storage}, nil
}

// appendBridges appends the configurations of all bridges in a part of a configuration. Those in arrays are in order.
func appendBridges(to []map[string]json.RawMessage, part json.RawMessage) []map[string]json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(part, &list) == nil {
		for _, element := range list {
			to = appendBridges(to, element)
		}
		return to
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(part, &object) != nil {
		return to
	}
	var handler string
	if json.Unmarshal(object["handler"], &handler) == nil && handler == handlerName {
		return append(to, object)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		to = appendBridges(to, object[name])
	}
	return to
}

// mountOnly returns the configuration of a bridge that serves MCP and nothing else, to the client of this process. Of the options of
// MCP it keeps those that concern no HTTP.
func mountOnly(bridge map[string]json.RawMessage) (json.RawMessage, error) {
	mount := map[string]json.RawMessage{}
	if text := bridge["mcp"]; text != nil {
		if err := json.Unmarshal(text, &mount); err != nil {
			return nil, fmt.Errorf("mcp: %w", err)
		}
	}
	mount["path"] = caddyconfig.JSON(localPath, nil)
	for _, name := range []string{"origins", "authorization_server", "scopes"} {
		delete(mount, name)
	}
	if bridge["callers_file"] != nil && string(bridge["allow_anonymous"]) != "true" {
		bridge["require_principal"] = json.RawMessage("true") // which callers_file implies
	}
	for _, name := range []string{"handler", "rpc", "a2a", "browse", "agent_skills", "webhooks", "principal", "callers_file"} {
		delete(bridge, name)
	}
	bridge["mcp"] = caddyconfig.JSON(mount, nil)
	return caddyconfig.JSON(bridge, nil), nil
}

// open returns a function that sends requests to the bridge, the options for them, and a function that releases what the bridge
// holds. Errors are usage errors.
func (b *localBridge) open(logging *caddy.Logging) (stdio.Do, stdio.Options, func(), error) {
	var options struct {
		MaxRequestSize int `json:"max_request_size"`
	}
	o := stdio.Options{URL: "http://localhost" + localPath, LimitName: "max_request_size"}
	if err := json.Unmarshal(b.handler, &options); err != nil {
		return nil, o, nil, err
	}
	o.MaxMessage = options.MaxRequestSize
	if err := standalone.Check(b.handler); err != nil {
		return nil, o, nil, err
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: logging, StorageRaw: b.storage})
	if err != nil {
		return nil, o, nil, err
	}
	ctx, release := caddy.NewContext(ctx)
	module, err := ctx.LoadModuleByID("http.handlers."+handlerName, b.handler)
	if err != nil {
		release()
		return nil, o, nil, err
	}
	bridge := module.(caddyhttp.MiddlewareHandler)
	site := new(caddyhttp.Server)
	return stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := caddy.NewReplacer()
		user.Set("http.auth.user.id", localPrincipal)
		err := bridge.ServeHTTP(w, caddyhttp.PrepareRequest(r, user, w, site), caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusNotFound)
			return nil
		}))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})), o, release, nil
}
