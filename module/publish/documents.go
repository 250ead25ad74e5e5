package publish

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	// lookEvery is the interval in which files are looked at.
	lookEvery = 5 * time.Second
	// defaultFresh is for how long a document from a URL is used that has no max-age, and longestFresh for how long any.
	defaultFresh, longestFresh = 5 * time.Minute, 24 * time.Hour
	// shortestPause is for how long one is not read again after an error, each further time for twice as long, up to longestPause: its server may be about
	// to start, or be this Caddy.
	shortestPause, longestPause = time.Second, time.Minute
	// firstPatience is for how long requests wait at first until all documents were read, if any was. Then the others are published without those that are slow.
	firstPatience = 5 * time.Second
	// readTimeout bounds the time for one document, and maxDocument its size.
	readTimeout = 30 * time.Second
	maxDocument = 16 << 20
	// maxLines bounds the operations that the log names when documents are read.
	maxLines = 100
)

// documents are what a handler publishes. They are data: configurations that have the same ones share them.
type documents struct {
	namespace string
	provider  document.Provider
	current   atomic.Pointer[catalog]
	loaded    chan struct{} // closed when current is set
	sources   []*source

	mu      sync.Mutex // held while current is set
	changed bool       // since current was set
	late    bool       // firstPatience is over
}

// source is an OpenAPI document, or the folder of descriptors.
type source struct {
	name string
	read func(ctx context.Context, r *reader) (*publish.API, error)
	last atomic.Pointer[publish.API] // that could be read; nil: none
	seen atomic.Bool                 // it was read, or can't be

	mu      sync.Mutex      // held while it is read: configurations that share it read it in turns. It guards what follows
	urls    map[string]bool // of the texts that it is made of
	files   []string        // that are looked at
	stamp   string          // of the files when they were read
	again   bool            // it is read once more because there are other files
	due     time.Time       // when what is from URLs is read again; zero: nothing is
	pause   time.Duration
	problem string // that was logged last
}

// newDocuments returns documents that were not read yet.
func (h *Handler) newDocuments(namespace string) *documents {
	l := &documents{namespace: namespace, loaded: make(chan struct{})}
	if p := h.Provider; p != nil {
		l.provider = document.Provider{Name: p.Name, URL: p.URL, Contact: p.Contact}
	}
	for _, d := range h.OpenAPI {
		if namespace == "" {
			break
		}
		location, s := new(url.URL), &source{name: d.Location}
		if d.remote() {
			location, _ = url.Parse(d.Location) // checked before
			s.due = time.Now()
		} else {
			file, _ := filepath.Abs(d.Location) // fails only without a working directory
			location.Scheme, location.Path, s.files = "file", filepath.ToSlash(file), []string{file}
		}
		options := &publish.Options{
			Document: d.Location, Namespace: namespace, Provider: l.provider, Include: d.Include, Exclude: d.Exclude, Access: d.Access, Rename: d.Rename, NoOutputSchema: d.OutputSchema == "off",
			TimeoutMS: float64(time.Duration(h.Timeout).Milliseconds()),
		}
		s.read = func(ctx context.Context, r *reader) (*publish.API, error) {
			return publish.Read(ctx, r, location, options)
		}
		l.sources = append(l.sources, s)
	}
	if h.Skills != "" {
		l.sources = append(l.sources, &source{name: h.Skills, files: []string{h.Skills}, read: func(context.Context, *reader) (*publish.API, error) {
			return publish.Descriptors(h.Skills)
		}})
	}
	return l
}

// refresh reads a source if it has changed, or may have, and returns after how long to look again.
func (l *documents) refresh(ctx context.Context, s *source, transport http.RoundTripper, logger *zap.Logger) (next time.Duration) {
	s.mu.Lock()
	changed := s.refresh(ctx, &reader{transport: transport, before: s.urls, urls: map[string]bool{}}, logger)
	next = min(lookEvery, cmp.Or(s.pause, lookEvery))
	s.mu.Unlock()
	l.publish(changed, false, logger)
	return next
}

// publish publishes what was read if it has changed: for the first time when all sources were read or, late, when any was. An empty index would say that there
// are no skills.
func (l *documents) publish(changed, late bool, logger *zap.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed, l.late = l.changed || changed, l.late || late
	isFirst := l.current.Load() == nil
	awaits := slices.ContainsFunc(l.sources, func(s *source) bool { return !s.seen.Load() })
	if isFirst && awaits && !l.late || (!isFirst || awaits) && !l.changed {
		return
	}
	l.changed = false
	c, leftOut := l.catalog()
	out := 0
	for i, left := range leftOut {
		what := "an operation is published, but a part of it is not known"
		if !left.Published {
			what = "an operation is not published"
			out++
		}
		if i < maxLines {
			logger.Warn(what, zap.String("document", left.Document), zap.String("operation", left.Operation), zap.String("reason", left.Reason))
		}
	}
	logger.Info("skills are published", zap.String("namespace", l.namespace), zap.Int("skills", len(c.ordered)), zap.Int("left_out", out))
	if l.current.Store(c); isFirst {
		close(l.loaded)
	}
}

// refresh reads the source if that is due, and reports whether it has changed. After an error, what was read before stays.
func (s *source) refresh(ctx context.Context, r *reader, logger *zap.Logger) bool {
	stamp := s.look()
	same := stamp == s.stamp
	if same && (s.due.IsZero() || time.Now().Before(s.due)) {
		return false
	}
	var api *publish.API
	var err error
	bug := panics.Recovered(func() { api, err = s.read(ctx, r) })
	if ctx.Err() != nil {
		return false
	}
	defer s.seen.Store(true)
	s.stamp, err = stamp, cmp.Or(bug, err, r.lost)
	switch {
	case r.fresh > 0:
		s.due = time.Now().Add(r.fresh)
	case err == nil:
		s.due = time.Time{} // it needs no URL, or no longer
	}
	if err != nil {
		if !s.due.IsZero() {
			s.pause = min(max(2*s.pause, shortestPause), longestPause)
			s.due = time.Now().Add(s.pause)
		}
		if s.problem != err.Error() {
			s.problem = err.Error()
			message := "a document can't be read; what was published of it before stays"
			if s.last.Load() == nil {
				message = "a document can't be read; nothing of it is published"
			}
			logger.Warn(message, zap.String("document", s.name), zap.Error(err))
		}
		return false
	}
	same = slices.Equal(api.Files, s.files)
	if s.files, s.again = api.Files, !same && !s.again; s.again { // they may have changed since they were read
		s.stamp = ""
	} else if !same {
		s.stamp = s.look()
	}
	before := s.last.Swap(api)
	same = before != nil && s.problem == "" && api.Sum != nil && bytes.Equal(api.Sum, before.Sum)
	s.urls, s.problem, s.pause = r.urls, "", 0
	return !same
}

// look returns what tells a change of the files: their times and sizes; of a folder, those of the files in it.
func (s *source) look() string {
	var b strings.Builder
	for _, file := range s.files {
		entries, _ := os.ReadDir(file) // what can't be read is reported when it is read
		names := append(make([]string, 0, 1+len(entries)), file)
		for _, entry := range entries {
			names = append(names, filepath.Join(file, entry.Name()))
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if fmt.Fprintln(&b, name, err == nil); err == nil {
				fmt.Fprintln(&b, info.ModTime().UnixNano(), info.Size())
			}
		}
	}
	return b.String()
}

// catalog returns what is published now, and what is left out.
func (l *documents) catalog() (*catalog, []publish.LeftOut) {
	c := &catalog{namespace: l.namespace, provider: l.provider, skills: map[string]*publish.Skill{}}
	var read []*publish.API
	for _, s := range l.sources {
		if last := s.last.Load(); last != nil {
			c.provider.Name, read = cmp.Or(c.provider.Name, last.Title), append(read, last)
		} else {
			c.partial = true
		}
	}
	c.provider.Name = cmp.Or(c.provider.Name, l.namespace)
	var leftOut []publish.LeftOut
	c.ordered, leftOut = publish.Merge(read)
	for _, skill := range c.ordered {
		c.skills[skill.ID] = skill
	}
	return c, leftOut
}

// reader reads documents by URL. It follows no redirects.
type reader struct {
	transport http.RoundTripper
	fresh     time.Duration // how long all that were read are fresh; 0: none was
	urls      map[string]bool
	before    map[string]bool // the urls when the documents were read before
	lost      error           // why one of these can't be read
}

// Read implements [publish.Reader].
func (r *reader) Read(ctx context.Context, location *url.URL) ([]byte, error) {
	text, err := r.fetch(ctx, location)
	at := location.String()
	if r.urls[at] = err == nil; err != nil {
		r.fresh = min(cmp.Or(r.fresh, defaultFresh), defaultFresh)
		if r.before[at] {
			r.lost = fmt.Errorf("%s can't be fetched: %w", at, err)
		}
	}
	return text, err
}

func (r *reader) fetch(ctx context.Context, location *url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	a, err := r.transport.RoundTrip(q)
	if refused, ok := errors.AsType[*exchange.RefusedError](err); ok && refused.Rule == run.RuleAddress {
		err = fmt.Errorf("%w; if it may be called, write its address in the option allow_networks", err)
	}
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it was answered with HTTP %d", a.StatusCode)
	}
	fresh := defaultFresh
	for directive := range strings.SplitSeq(a.Header.Get("Cache-Control"), ",") {
		age, _ := strings.CutPrefix(strings.ToLower(strings.TrimSpace(directive)), "max-age=")
		if seconds, err := strconv.ParseUint(age, 10, 31); err == nil {
			fresh = min(max(time.Duration(seconds)*time.Second, lookEvery), longestFresh)
		}
	}
	r.fresh = min(cmp.Or(r.fresh, fresh), fresh)
	text, err := io.ReadAll(io.LimitReader(a.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = errors.New("it is larger than 16 MiB")
	}
	return text, err
}

// Check reads the documents of all handlers of this process, and returns how many handlers and skills there are, and what is wrong.
func Check(ctx context.Context) (handlers, skills int, found []publish.LeftOut) {
	for _, p := range observe.Publishers() {
		c, wrong := p.(*Handler).read(ctx) //nolint:forcetypeassert // there are no others
		handlers, skills, found = handlers+1, skills+len(c.ordered), append(found, wrong...)
	}
	return handlers, skills, found
}

// read reads the documents, and returns what they publish and what is wrong.
func (h *Handler) read(ctx context.Context) (*catalog, []publish.LeftOut) {
	l := h.newDocuments(h.site().namespace)
	for _, s := range l.sources {
		l.refresh(ctx, s, h.transport, zap.NewNop())
	}
	var found []publish.LeftOut
	for _, fault := range h.site().wrong {
		found = append(found, publish.LeftOut{Reason: fault, Mistake: true})
	}
	for _, s := range l.sources {
		if s.problem != "" {
			found = append(found, publish.LeftOut{Document: s.name, Reason: s.problem, Mistake: true})
		}
	}
	c, out := l.catalog()
	return c, append(found, out...)
}

// Documents reads the documents of a handler that has a URL, and returns the index and the descriptors of all skills by their paths, and what is wrong.
func (h *Handler) Documents(ctx context.Context) (map[string]jsontext.Value, []publish.LeftOut) {
	c, found := h.read(ctx)
	base := h.URL + h.Path
	files := make(map[string]jsontext.Value, len(c.ordered)+1)
	files[document.WellKnownPath], _ = c.index(base, "", true)
	for _, s := range c.ordered {
		files[h.Path+"/"+s.ID+".json"] = s.Descriptor(base, c.provider.Name)
	}
	return files, found
}

// WriteFiles writes documents by their paths below a folder.
func WriteFiles(folder string, documents map[string]jsontext.Value) (err error) {
	for path, text := range documents {
		name := filepath.Join(folder, filepath.FromSlash(path))
		err = cmp.Or(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)) //nolint:gosec // a web server reads them
	}
	return err
}
