package fronts

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
)

// MCP is the mount of MCP (Model Context Protocol).
type MCP struct {
	// The path of the endpoint. Default: `/mcp`.
	Path string `json:"path,omitempty"`

	// The server's name for programs. Default: `skill-bridge`.
	Name string `json:"name,omitempty"`

	// What the model of a client is told about the tools. Default: a sentence with the namespaces.
	Instructions string `json:"instructions,omitempty"`

	// The versions of MCP that are served. Default: `2026-07-28`, `2025-11-25`, `2025-06-18` and `2025-03-26`.
	Versions []string `json:"versions,omitempty"`

	// How long a call of a client that supports tasks waits before it is answered with a task; `off`: there are no tasks. Default: `2s`.
	TaskAfter string `json:"task_after,omitempty"`

	// Whether outputs are checked against the schemas that their providers publish: `on` or `off`. With `off`, the schemas are not
	// listed. Default: `on`.
	Validate string `json:"validate,omitempty"`

	// What `tools/list` has: a tool for each skill (`list`), or only tools with which a model searches skills, reads their
	// descriptions and calls them (`search`). Choose `search` if there are more than about 100 skills, since clients give a model all
	// listed tools. Default: `list`.
	Catalog string `json:"catalog,omitempty"`

	// Origins of web pages that may send requests, besides that of the endpoint itself, such as `https://app.example.com`. Their
	// hosts are also accepted in the Host field on a loopback listener. Default: none.
	Origins []string `json:"origins,omitempty"`

	// Issuers of the access tokens that callers may have, such as `https://login.example.com`. Clients find them in metadata (RFC 9728)
	// below `/.well-known/oauth-protected-resource`, to which the 401 answers of this mount point. The bridge does not check tokens:
	// a handler in front has to. Default: none.
	AuthorizationServer []string `json:"authorization_server,omitempty"`

	// Scopes that clients ask the authorization servers for. Default: none.
	Scopes []string `json:"scopes,omitempty"`
}

const (
	defaultMCPPath = "/mcp"
	defaultMCPName = "skill-bridge"
	on             = "on"
	off            = "off"

	catalogList   = "list"
	catalogSearch = "search"
)

// path returns the path of the mount, without a slash at its end; empty: there is none.
func (m *MCP) path() string {
	if m == nil {
		return ""
	}
	return strings.TrimSuffix(cmp.Or(m.Path, defaultMCPPath), "/")
}

// read reads the option mcp.
func (m *MCP) read(r *options.Reader) error {
	if err := r.Args("mcp", "optionally a path", 0, &m.Path); err != nil {
		return err
	}
	return r.Block("mcp", "mcp", options.Targets{
		"name": &m.Name, "instructions": &m.Instructions,
		"versions": &m.Versions, "task_after": &m.TaskAfter, "validate": &m.Validate, "catalog": &m.Catalog,
		"origins": &m.Origins, "authorization_server": &m.AuthorizationServer, "scopes": &m.Scopes,
	})
}

// check checks the options.
func (m *MCP) check(c *options.Checker) {
	c.Check("mcp.path", checkPath(m.Path))
	for i, v := range m.Versions {
		if !slices.Contains(mcp.AllVersions(), v) {
			c.Check(options.Element("mcp.versions", i), fmt.Errorf("version %q is none of %s", v, strings.Join(mcp.AllVersions(), ", ")))
		}
	}
	_, err := m.taskAfter()
	c.Check("mcp.task_after", err)
	oneOf(c, "mcp.catalog", "catalog", m.Catalog, catalogList, catalogSearch)
	oneOf(c, "mcp.validate", "validate", m.Validate, on, off)
	for i, o := range m.Origins {
		c.Check(options.Element("mcp.origins", i), checkOrigin(o))
	}
	m.checkAuthorization(c)
}

// taskAfter returns how long a call waits before it is answered with a task; negative: there are no tasks.
func (m *MCP) taskAfter() (time.Duration, error) {
	switch m.TaskAfter {
	case "":
		return mcp.DefaultTaskAfter, nil
	case off:
		return -1, nil
	}
	d, err := caddy.ParseDuration(m.TaskAfter)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("task_after %q is no duration of 0 or more, and not off", m.TaskAfter)
	}
	return d, nil
}

// checkOrigin checks an origin (RFC 6454, section 6.2).
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("origin " + text + " is not a scheme and a host, such as https://app.example.com")
	}
	return nil
}

// options returns the options of the front.
func (m *MCP) options(wait time.Duration, namespaces []string) mcp.Options {
	after, _ := m.taskAfter() // checked before
	o := mcp.Options{
		Name: cmp.Or(m.Name, defaultMCPName), Instructions: m.Instructions, Version: ModuleVersion(),
		Versions: mcp.AllVersions(), Wait: wait, TaskAfter: after,
		Validate: m.Validate != off, Search: m.Catalog == catalogSearch,
	}
	if o.Instructions == "" && len(namespaces) > 0 {
		o.Instructions = "Tools of " + strings.Join(namespaces[:min(len(namespaces), 20)], ", ") + ". "
		if o.Search {
			o.Instructions += "Find a skill with search_skills, read how to use it with describe_skill, and run it with call_skill. "
		}
		o.Instructions += "A call that takes long is answered with a run_token: follow it with get_run instead of calling the tool again."
	}
	if len(m.Versions) > 0 {
		o.Versions = slices.DeleteFunc(o.Versions, func(v string) bool { return !slices.Contains(m.Versions, v) })
	}
	return o
}
