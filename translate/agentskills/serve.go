package agentskills

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Name is the name of this front in [run.Caller], for reports.
const Name = "agent_skills"

// The requests, in reports.
const (
	methodIndex = "index"
	methodFile  = "file"
)

const (
	maxAge       = 5 * time.Minute // of the index and of files without a version
	maxAgeOfFile = time.Hour       // of files with a version, which do not change
)

// reply is what a request gets.
type reply struct {
	body      io.ReadSeeker
	whole     bool // parts of it are not served: they would cost as much as all of it
	mediaType string
	etag      string
	maxAge    time.Duration
	private   bool // it is for one principal: caches must ask again before each use
}

// Serve answers a request for the index or a file. url is that of the endpoint of the Skills Protocol, as the client of the request sees it.
func (s *Site) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, caller run.Caller, url string) {
	t, _ := parsePath(r.URL.Path)
	if !front.IsRead(w, r, "The files of skills are read with GET.") {
		return
	}
	d, failure := s.find(ctx, caller, t, url)
	operation := translate.OperationList
	caller.Front, caller.Method = Name, methodIndex
	if t.file != "" {
		operation, caller.Method = translate.OperationDescribe, methodFile
	}
	s.Bridge.ReportRun(ctx, translate.Call{Caller: caller}, operation, &run.Run{Failure: failure})
	if failure != nil {
		fail(w, failure)
		return
	}
	d.serve(w, r)
}

// find returns the reply that a caller asks for.
func (s *Site) find(ctx context.Context, caller run.Caller, t target, url string) (*reply, *run.Failure) {
	who := caller
	who.Method = Name
	if failure := front.Admit(ctx, s.RequirePrincipal, &who, s.Refused); failure != nil {
		return nil, failure
	}
	failure := &run.Failure{Phase: run.PhaseDiscovery, By: run.Bridge, Executed: run.ExecutedNo}
	url, err := s.urlOf(url)
	if err != nil {
		failure.Kind, failure.Cause, failure.Message = run.InvalidArguments, err, "The Host of the request can't be part of a URL."
		failure.Argument = &run.Argument{Field: run.FieldOther, Name: "Host", Reason: run.WrongSchema}
		return nil, failure
	}
	v, err := s.viewOf(ctx, caller)
	if err != nil {
		failure.Kind, failure.Cause, failure.Message = run.Unreachable, err, "The skills can't be read at the moment; try again."
		failure.Retry = run.RetryIn(5*time.Second, 3)
		return nil, failure
	}
	if v.closed {
		return nil, front.Unauthenticated("The skills are for authenticated callers only.")
	}
	d := &reply{private: caller.Principal != "", maxAge: min(max(0, time.Until(v.fresh)), maxAge)}
	if t.file == "" {
		late := sync.OnceValues(func() (string, error) { return s.indexOf(ctx, v.list, url) })
		d.body = io.NewSectionReader(lateText(late), 0, int64(v.size))
		d.mediaType, d.etag, d.whole = "application/json", v.etag(url), true
		return d, nil
	}
	c := v.contentOf(t.file)
	if c == nil || t.version != "" && !hasVersion(c.digestAt(url), t.version) {
		failure.Kind, failure.Message = run.SkillNotFound, "There is no such file. The index names the files: read it again."
		failure.Argument = &run.Argument{Field: run.FieldSkill, Reason: run.NotFound}
		return nil, failure
	}
	d.body, d.mediaType, d.etag = strings.NewReader(c.at(url)), "text/markdown; charset=utf-8", tagOf(c.digestAt(url))
	if t.version != "" {
		d.maxAge = maxAgeOfFile
	}
	return d, nil
}

// fail answers a request with a failure.
func fail(w http.ResponseWriter, failure *run.Failure) {
	status := http.StatusServiceUnavailable
	switch failure.Kind {
	case run.SkillNotFound:
		status = http.StatusNotFound
	case run.InvalidArguments:
		status = http.StatusBadRequest
	case run.AuthRequired:
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	default:
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	http.Error(w, failure.Message, status)
}

// serve answers with the reply, or with 304 if the client has it (RFC 9110, section 13).
func (d *reply) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if d.private { // a cookie or another header may name the principal, so the next request for the URL may be another's
		header.Set("Cache-Control", "private, no-cache")
	} else {
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("Cache-Control", "public, max-age="+strconv.FormatInt(int64(d.maxAge/time.Second), 10))
	}
	header.Add("Vary", "Authorization")
	header.Set("ETag", d.etag)
	header.Set("Content-Type", d.mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	if d.whole {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", time.Time{}, d.body)
}
