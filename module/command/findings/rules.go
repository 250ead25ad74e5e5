package findings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/inspection"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// OfAll returns the findings about bridges and their databases.
func OfAll(ctx context.Context, bridges []*observe.Bridge) []Finding {
	all := OfStores(ctx, bridges)
	for _, b := range bridges {
		own := Of(inspection.Of(ctx, b.Catalog()))
		if b.Principals != nil && len(b.Principals()) == 0 { // only callers with a key may use it
			own = append(own, Finding{Result: Warning, What: "callers_file has no key, so that no caller has a principal", Fix: "add a key: caddy skill-bridge hash-key"})
		}
		if b.TryIssuers != nil {
			b.TryIssuers(ctx, func(issuer string, keys int, err error) {
				f := Finding{Result: OK, What: fmt.Sprintf("the issuer %s can be read; keys for the tokens of callers: %d", issuer, keys)}
				if err != nil {
					f.What = fmt.Sprintf("the keys of the issuer %s can't be read: %v", issuer, err)
				}
				if keys == 0 {
					f.Result, f.Fix = Failed, "correct callers_jwt, or look at the issuer"
				}
				own = append(own, f)
			})
		}
		own = slices.Concat(own, ofWarnings(b), ofAccounts(ctx, b), ofRules(inspection.UnknownNames(ctx, b.Catalog(), b.Access, b.Quotas, b.Principals), b.Line))
		for _, f := range own {
			f.Bridge = b.Number
			all = append(all, f)
		}
	}
	return all
}

// ofWarnings returns what the bridge warns of in its log when it starts.
func ofWarnings(b *observe.Bridge) (all []Finding) {
	var text bytes.Buffer
	format := zapcore.EncoderConfig{MessageKey: "message", ConsoleSeparator: " "}
	b.Warn(zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(format), zapcore.AddSync(&text), zapcore.WarnLevel)))
	for line := range strings.Lines(text.String()) {
		what, fix, _ := strings.Cut(strings.TrimSpace(line), ": ")
		all = append(all, Finding{Result: Warning, What: what, Fix: fix})
	}
	return all
}

// maxAccounts is how many connected accounts are looked at.
const maxAccounts = 1000

// ofAccounts returns the findings about sources of which users have accounts. It reads the metadata of their issuers, and the accounts that are connected.
func ofAccounts(ctx context.Context, b *observe.Bridge) (all []Finding) {
	connected, ending := map[string]int{}, map[string]int{}
	if b.Grants != nil {
		grants, _ := b.Grants.List(ctx, "", maxAccounts) // OfStores reports that the database can't be read
		for _, g := range grants {
			connected[g.Namespace]++
			if !g.Ends.IsZero() {
				ending[g.Namespace]++
			}
		}
	}
	for _, s := range b.Catalog().Sections() {
		user, ok := s.Credentials.(*credentials.OAuth2User)
		if !ok || b.Redirect == nil {
			continue
		}
		l, uri := list{source: s.Namespace}, b.Redirect(s.Namespace)
		all = append(all, Finding{Result: OK, Source: s.Namespace, What: "each user connects an account; register this redirect URI at the authorization server: " + uri, URL: uri})
		request := (&http.Request{Method: http.MethodGet, URL: s.URL, Header: http.Header{}}).WithContext(ctx)
		err := user.CheckIssuer(ctx, s.Client.Authentication(ctx, nil, request, nil), "", false)
		if f, unread := errors.AsType[*run.Failure](err); unread { // an answer without an issuer may be wrong, and is not meant here
			l.addFailure(Failed, "", f, "correct issuer, or look at the authorization server", "")
		}
		if n := ending[s.Namespace]; n > 0 {
			l.add(Warning, "",
				fmt.Sprintf("connected accounts whose access token ends, without a refresh token: %d of %d; their users have to connect again then", n, connected[s.Namespace]),
				"ask for what the authorization server gives refresh tokens for, such as scopes +offline_access or params access_type offline")
		}
		all = append(all, l.findings...)
	}
	return all
}

// ofRules returns the findings about names in access rules and quotas that mean nothing. Line returns file and line of a value of the bridge by its
// JSON path; empty: they are not known.
func ofRules(unknown []inspection.UnknownName, line func(path string) string) (all []Finding) {
	for _, u := range unknown {
		where := fmt.Sprintf("access.rules[%d]", u.Rule)
		switch u.Kind {
		case inspection.QuotaRule:
			where = fmt.Sprintf("quotas[%d]", u.Rule)
		case inspection.GroupRule:
			where = "access.groups." + u.Group
		}
		if at := line(where); at != "" {
			where = at
		}
		f := Finding{
			Result: Warning, Skill: u.Name, What: fmt.Sprintf("%s (%s) is for a skill that no source lists, so it has no effect", u.Kind, where),
			Fix: "correct the name, or remove it",
		}
		if u.Pattern < 0 {
			f.Skill, f.Fix = "", "correct the name, if a group is meant"
			f.What = fmt.Sprintf("%s (%s) is for a principal %q, and no group has this name", u.Kind, where, u.Name)
			if u.Callers {
				f.What = fmt.Sprintf("%s (%s) has a principal %q, which has no key in callers_file", u.Kind, where, u.Name)
				f.Fix = "correct the name, add a key (caddy skill-bridge hash-key), or remove the name"
			}
		}
		if len(u.Similar) > 0 {
			f.Fix += ": did you mean " + strings.Join(u.Similar, " or ") + "?"
		}
		all = append(all, f)
	}
	return all
}

// OfStores returns the findings about the databases of bridges, each with the number of the first that uses it. It opens them, and waits until they are open.
func OfStores(ctx context.Context, bridges []*observe.Bridge) (all []Finding) {
	all, known := []Finding{}, map[*store.DB]bool{}
	for _, b := range bridges {
		db := b.Store
		if db == nil || known[db] {
			continue
		}
		known[db] = true
		db.Start(zap.NewNop())
		err := db.Ready(ctx)
		for err != nil && ctx.Err() == nil && db.Status().Trouble == nil { // it is still being opened
			err = db.Ready(ctx)
		}
		if err == nil {
			err = db.Check(ctx)
		}
		status := db.Status()
		f := Finding{Result: OK, What: keeping.Named(status.Place) + " can be read and written"}
		if status.Migration != "" {
			f.What += "; " + status.Migration
		}
		if err != nil {
			f = Finding{Result: Failed, What: "the database can't be used: " + keeping.Named(err.Error()), Fix: "look at the database"}
			if u, ok := errors.AsType[*ledger.Unavailable](err); ok {
				f.Fix = u.Advice
			}
		}
		f.Bridge = b.Number
		all = append(all, f)
	}
	return all
}
