//go:build !nodemo

package main

import _ "github.com/skill-bridge/caddy-skill-bridge/module/cmd/caddy/demo" // releases lack it
