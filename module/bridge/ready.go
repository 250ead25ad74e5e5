package bridge

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
)

// announce logs that the bridge is ready, and where it is. It says so on the terminal, too, since the log may go to a file.
func (h *Handler) announce(app *caddyhttp.App) {
	urls, database, callers := h.URLs(app, h), "none", h.callers()
	if db := h.DB(); db != nil {
		database = db.Status().Place
	}
	var names []string
	for _, source := range h.shown.Sources() {
		names = append(names, source.Namespace)
	}
	h.logger.Info("bridge ready", zap.Strings("urls", urls), zap.Strings("sources", names), zap.Strings("callers", callers),
		zap.String("store", database), zap.String("bridge", h.givenName()), zap.String("version", fronts.ModuleVersion()))
	terminals := []*os.File{os.Stderr, os.Stdout}
	if i := slices.IndexFunc(terminals, func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }); i >= 0 {
		list := func(words []string) string { return strings.Join(words, ", ") }
		fmt.Fprintf(terminals[i], "Skill Bridge is ready: %s (sources: %s; callers: %s; store: %s)\n", list(urls), list(names), list(callers), database)
	}
}

// callers returns who may call the bridge, by option.
func (c *Callers) callers() (who []string) {
	for i := range c.CallersJWT {
		who = append(who, "callers_jwt "+c.CallersJWT[i].URL)
	}
	switch {
	case c.CallersFile != "":
		who = append(who, "callers_file "+c.CallersFile)
	case len(who) == 0:
		who = append(who, "principal "+c.placeholder())
	}
	if !c.requires() {
		who = append(who, "anonymous")
	}
	return who
}
