package bridge

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// announce logs that the bridge is ready, or only listens until its database is open, and where it is. It says so on the terminal, too, since the log may go
// to a file.
func (h *Handler) announce(ctx context.Context, app *caddyhttp.App) {
	urls, open := h.URLs(app, h)
	state, database, callers := "ready", "none", h.callers(open)
	if db := h.DB(); db != nil {
		_ = db.Ready(ctx) // the status has the error
		if ctx.Err() != nil {
			return
		}
		s := db.Status()
		switch database = s.Place; {
		case !s.Open:
			state, database = "listening", database+", not open yet"
		case s.Trouble != nil:
			database += ", unusable at present"
		}
	}
	var names []string
	for _, source := range h.shown.Sources() {
		names = append(names, source.Namespace)
	}
	h.logger.Info("bridge "+state, zap.Strings("urls", urls), zap.Strings("sources", names), zap.Strings("callers", callers),
		zap.String("store", database), zap.String("bridge", h.givenName()), zap.String("version", fronts.ModuleVersion()))
	terminals := []*os.File{os.Stderr, os.Stdout}
	if i := slices.IndexFunc(terminals, func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }); i >= 0 {
		list := func(words []string) string { return strings.Join(words, ", ") }
		fmt.Fprintf(terminals[i], "Skill Bridge is %s: %s (sources: %s; callers: %s; store: %s)\n", state, list(urls), list(names), list(callers), database)
	}
	if state != "ready" {
		for !h.DB().Status().Open {
			if !run.Sleep(ctx, time.Second) {
				return
			}
		}
		h.announce(ctx, app)
	}
}

// callers returns who may call the bridge, by option. open says that nothing in front of it authenticates callers.
func (c *Callers) callers(open bool) (who []string) {
	if open && c.Principal == "" && !c.byToken() && !c.requires() {
		return []string{"everyone"}
	}
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
