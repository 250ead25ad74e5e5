package store

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
)

// serveTLS lets the server that tests share use a certificate, until the end of the test.
func serveTLS(t *testing.T, dsn, certificate, key string) {
	t.Helper()
	for name, file := range map[string]string{"server.crt": certificate, "server.key": key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		postgrestest.Exec(t, dsn, fmt.Sprintf("COPY (SELECT regexp_split_to_table('%s', E'\\n')) TO PROGRAM 'umask 077; cat >%s'", strings.TrimSpace(string(text)), name))
	}
	set := func(ssl string) {
		postgrestest.Exec(t, dsn, "ALTER SYSTEM SET ssl = "+ssl)
		postgrestest.Exec(t, dsn, "SELECT pg_reload_conf(), pg_sleep(0.3)")
	}
	set("on")
	t.Cleanup(func() { set("off") })
}

// TestVerifyFull tests that with sslmode=verify-full only a server is used whose certificate is of the CA and for the host of the DSN. What is wrong is said without
// the password.
func TestVerifyFull(t *testing.T) {
	dsn, ca := postgrestest.Start(t), hostile.NewCA(t)
	certificate, key := ca.ServerCertificate()
	serveTLS(t, dsn, certificate, key)
	for name, test := range map[string]struct{ host, root, text, advice string }{
		"its CA":       {"127.0.0.1", ca.File(), "", ""},
		"another CA":   {"127.0.0.1", hostile.NewCA(t).File(), "unknown authority", "sslrootcert"},
		"no CA":        {"127.0.0.1", "", "unknown authority", "sslrootcert"},
		"another host": {"0.0.0.0", ca.File(), "not 0.0.0.0", "host of the DSN"},
		"no file":      {"127.0.0.1", ca.File() + ".none", "no such file", "sslrootcert"},
		"no PEM":       {"127.0.0.1", key, "TLS", "sslrootcert"},
	} {
		t.Run(name, func(t *testing.T) {
			log, logs := observed()
			db := begin(t, Settings{Kind: Postgres, DSN: strings.Replace(dsn, "127.0.0.1", test.host, 1) + "?sslmode=verify-full&sslrootcert=" + test.root}, log)
			err := db.Ready(t.Context())
			if test.text == "" {
				if err != nil || !scalar[bool](t, db, reading, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") {
					t.Errorf("no TLS: %v", err)
				}
				return
			}
			u := wantUnavailable(t, err, test.text, test.advice)
			if logs.FilterField(zap.String("advice", u.Advice)).Len() != 1 {
				t.Errorf("%+v", logs.All())
			}
		})
	}
}
