package consent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// thief is an authorization server that takes a refresh token that is sent twice for a stolen one, and then refuses all. Its access tokens are short-lived.
type thief struct {
	*login

	mu     sync.Mutex
	sent   map[string]bool // refresh tokens
	stolen bool
}

var expiresIn = regexp.MustCompile(`"expires_in":\d+`)

func (s *thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/oauth/token" {
		s.login.ServeHTTP(w, r)
		return
	}
	_ = r.ParseForm()
	if token := r.PostForm.Get("refresh_token"); token != "" {
		s.mu.Lock()
		s.stolen = s.stolen || s.sent[token]
		s.sent[token] = true
		stolen := s.stolen
		s.mu.Unlock()
		if stolen {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	recorder := httptest.NewRecorder()
	s.login.ServeHTTP(recorder, r)
	w.WriteHeader(recorder.Code)
	_, _ = io.WriteString(w, expiresIn.ReplaceAllString(recorder.Body.String(), `"expires_in":2`))
}

// R233: two processes with one database refresh the tokens of users, each at an authorization server that replaces the refresh token each time and ends the
// grant if an earlier one is used again. Each token is used once, and no call fails.
func TestR233RefreshAtTwoInstances(t *testing.T) {
	t.Parallel()
	s := &thief{login: newLogin(t), sent: map[string]bool{}}
	s.Config.Handler = s
	p := hostile.NewProvider(t, s.skills(scopes)...)
	config := strings.Replace(siteWith("FILE", sealKey, source(p, "acme", s.login)), "store sqlite FILE", `store postgres "`+postgrestest.Start(t)+`"`, 1)
	first, second := testbed.StartProcess(t, testbed.Limits{}, config), testbed.StartProcess(t, testbed.Limits{}, config)
	base := "http://127.0.0.1:" + first.Port("PORT")
	s.register(t, base+"/connect/acme/callback")
	users := []string{"ada", "bob", "eve"}
	for _, user := range users {
		(&bed{login: s.login, provider: p, base: base}).browser(t, user).connect()
	}
	var group sync.WaitGroup
	enough := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.stolen || len(s.sent) >= 9
	}
	for end := time.Now().Add(time.Minute); len(users) > 0; users = users[1:] {
		for _, instance := range []*testbed.Process{first, second, first, second} {
			client := instance.With(testbed.Header("X-User", users[0]))
			group.Go(func() {
				for !enough() && time.Now().Before(end) {
					if a := client.Execute("acme.book", nil); a.Outcome() != "completed" {
						t.Errorf("%s", a)
						return
					}
				}
			})
		}
	}
	group.Wait()
	s.mu.Lock() // an instance may still refresh tokens
	defer s.mu.Unlock()
	if n := len(s.sent); s.stolen || n < 9 {
		t.Errorf("%d refresh tokens were used; one twice: %t", n, s.stolen)
	}
}
