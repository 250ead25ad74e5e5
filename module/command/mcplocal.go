package command

import (
	"bytes"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"go.uber.org/zap"
)

// localPath is the path of the MCP endpoint of a bridge in this process.
const localPath = "/mcp"

// ofProviders returns a bridge for providers.
func (r *providerFlags) ofProviders(origins []string, logging *caddy.Logging) (*localBridge, error) {
	config, err := r.handler(origins...)
	if err != nil {
		return nil, err
	}
	config.AllowAnonymous = true // the user of the command has the key
	config.MCP = json.RawMessage(`{"path":"` + localPath + `"}`)
	return openBridge(caddyconfig.JSON(config, nil), nil, logging)
}

// ofFile returns the first bridge of a configuration file, and its largest request; 0: the default.
func ofFile(file, adapter string, logging *caddy.Logging) (b *localBridge, maxRequest int, err error) {
	if file == "-" {
		return nil, 0, errors.New("--config - is not possible, since standard input has the messages of the client: name a file")
	}
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, 0, err
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
		return nil, 0, fmt.Errorf("--config %s: %w", file, err)
	}
	var found []map[string]json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(config.Apps.HTTP.Servers)) {
		found = appendBridges(found, config.Apps.HTTP.Servers[name])
	}
	found = slices.CompactFunc(found, func(a, b map[string]json.RawMessage) bool { // one site on several addresses
		return maps.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	})
	if len(found) == 0 {
		return nil, 0, fmt.Errorf("--config %s has no %s", file, handlerName)
	}
	if len(found) > 1 {
		caddy.Log().Named("skill_bridge.mcp").Warn("the configuration has several bridges; the first is used", zap.Int("bridges", len(found)))
	}
	handler, err := mountOnly(found[0])
	if err != nil {
		return nil, 0, fmt.Errorf("--config %s: %w", file, err)
	}
	if size := found[0]["max_request_size"]; size != nil {
		if err := json.Unmarshal(size, &maxRequest); err != nil {
			return nil, 0, fmt.Errorf("--config %s: max_request_size: %w", file, err)
		}
	}
	b, err = openBridge(handler, config.Storage, logging)
	return b, maxRequest, err
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
