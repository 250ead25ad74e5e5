package jsonrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// defaultMaxRequestSize is the default of [Server.MaxRequestSize].
const defaultMaxRequestSize = 1 << 20

// Server answers JSON-RPC 2.0 over HTTP. Its fields must not be changed while it
// serves.
type Server struct {
	// Handler runs the methods. It is required.
	Handler Handler
	// Profile has the properties of the protocol.
	Profile Profile
	// MaxRequestSize is the largest body, in bytes. 0: 1 MiB.
	MaxRequestSize int64
	// MaxAnswerSize bounds the answer to a batch without its ids, in bytes. An element whose answer exceeds it is
	// answered with an error. 0: no limit.
	MaxAnswerSize int64
	// MaxAnswers bounds the answers that are in memory at any time, in bytes. The first 64 KiB of each HTTP answer, or
	// of each event of a stream, do not count. A request whose answer exceeds it is answered with an error. 0: no limit.
	MaxAnswers int64
	// Memory counts the answers of all servers that share MaxAnswers; nil: those of this server alone.
	Memory *share.Pool
	// Owner returns who has sent the HTTP request of a context, for the shares of the Memory. nil: all answers have one owner.
	Owner func(context.Context) string
	// WriteTimeout is how long a client may read nothing of its answer before it is disconnected. It does not apply to
	// short answers over HTTP/1.1, whose writing never waits for the client. It does not extend the WriteTimeout of the
	// HTTP server. 0: no limit.
	WriteTimeout time.Duration
	// OnUnread is called after a client was disconnected because of WriteTimeout, with the number of bytes that were
	// written. May be nil.
	OnUnread func(ctx context.Context, written int64)
	// OnPanic is called after a panic of the handler, on the goroutine of the panic, with
	// its stack. It must not panic. May be nil. It is not called for
	// [http.ErrAbortHandler], which is passed on to the HTTP server.
	OnPanic func(ctx context.Context, value any, stack []byte)

	own share.Pool // if Memory is nil
}

// ServeHTTP answers one HTTP request. The package documentation lists the statuses.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Serve(r.Context(), w, r)
}

// Serve is ServeHTTP with another context than the request's.
func (s *Server) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	o := output{server: s, ctx: ctx, w: w, request: r, arrived: time.Now()}
	if refused := s.Profile.refuse(r); refused != nil {
		o.refuse(refused)
		return
	}
	limit := s.MaxRequestSize
	if limit <= 0 {
		limit = defaultMaxRequestSize
	}
	if r.ContentLength > limit {
		o.tooLarge(limit, true)
		return
	}
	body := r.Body
	if r.ContentLength < 0 { // if the body is too large, the connection should be closed
		body = http.MaxBytesReader(w, body, limit)
	}
	buffer, err := readBody(body, r.ContentLength, limit)
	if err != nil {
		o.unreadable(err, limit)
		putBuffer(buffer)
		return
	}
	s.serveBody(&o, buffer)
}

// Refuse answers an HTTP request without reading its body, with the error that [Profile.Refuse] returns for a status and a reason. The
// field says what the client has to do, such as WWW-Authenticate with status 401.
func (s *Server) Refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, status int, reason, field, value string) {
	o := output{server: s, ctx: ctx, w: w, request: r, arrived: time.Now()}
	o.refuse(&refusal{status, reason, field, value})
}

func (s *Server) serveBody(o *output, body *[]byte) {
	msg := messagePool.Get().(*message)
	msg.body, msg.members, msg.request = body, memberPool.Get().(*memberBuffers), o.request
	fault := msg.decode(*body, &s.Profile)
	switch {
	case fault != nil:
		o.error(s.Profile.status(fault), nil, fault)
	case msg.Batch:
		s.serveBatch(o, msg.Elements)
	default:
		msg.output = *o // a pointer would cost an allocation per request
		msg.Elements[0].Request.message = msg
		s.serveSingle(o, &msg.Elements[0])
	}
	// Not deferred: after a panic, goroutines may still use the body.
	msg.release()
}

func (s *Server) serveSingle(o *output, element *element) {
	req := &element.Request
	if element.response && s.Profile.TakesResponse(o.request) {
		o.noContent()
		return
	}
	if element.Err != nil {
		o.error(s.Profile.status(element.Err), req.ID, element.Err)
		return
	}
	req.server, req.answer, req.HTTP = s, s.part(s.owner(o.ctx)), o.request
	defer req.end()
	a := s.call(o.ctx, req)
	if a.aborted {
		panic(http.ErrAbortHandler)
	}
	if req.IsNotification() {
		o.noContent()
		return
	}
	if req.stream.end(a.panicked) {
		return
	}
	fault := a.fault(&s.Profile)
	if !a.panicked && !req.Reserve(a.size(req, fault)) {
		a = answer{}
		fault = s.Profile.tooLarge(req, fault)
	}
	switch {
	case a.panicked:
		o.error(http.StatusInternalServerError, req.ID, fault)
	case fault != nil:
		o.error(s.Profile.status(fault), req.ID, fault)
	case len(a.result) >= writeSize: // not copied
		buffer := getBuffer()
		*buffer = append(appendHead(*buffer, req.ID), `,"result":`...)
		o.header(http.StatusOK, strconv.Itoa(len(*buffer)+len(a.result)+1))
		o.write(*buffer)
		o.write(a.result)
		o.write([]byte{'}'})
		putBuffer(buffer)
	default:
		buffer := getBuffer()
		*buffer = appendResult(*buffer, req.ID, a.result)
		o.whole(http.StatusOK, *buffer)
		putBuffer(buffer)
	}
}

// unreadable answers a body that could not be read to its end. A handler in front may
// have set a smaller limit than this server.
func (o *output) unreadable(err error, limit int64) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		o.tooLarge(tooLarge.Limit, tooLarge.Limit == limit)
		return
	}
	// Most likely the client is gone. The error is not shown: it may describe the connection.
	fault := o.server.Profile.fault(CodeParseError, "the body could not be read to its end")
	o.error(o.server.Profile.status(fault), nil, fault)
}

// tooLarge answers a body that exceeds a limit. own says that the limit is MaxRequestSize.
func (o *output) tooLarge(limit int64, own bool) {
	p, name, reason := &o.server.Profile, "", fmt.Sprintf("the body is larger than %d bytes", limit)
	if own {
		name, reason = limitRequest, fmt.Sprintf("%s (%s: %d)", reason, limitRequest, limit)
	}
	fault := p.refusal(http.StatusRequestEntityTooLarge, reason)
	if fault == nil {
		fault = p.exceeded(CodeInvalidRequest, reason, &Limit{name, limit})
	}
	o.error(http.StatusRequestEntityTooLarge, nil, fault)
}

// answer is the outcome of one element. The zero value means that the handler has not
// returned.
type answer struct {
	result jsontext.Value
	err    *Error
	// panicked means that the handler panicked, and err is the internal error for it.
	panicked bool
	// aborted means that the handler panicked with [http.ErrAbortHandler], so that the
	// HTTP request must not be answered.
	aborted bool
}

// call runs the handler for one valid request and recovers its panics.
func (s *Server) call(ctx context.Context, req *Request) (a answer) {
	if ctx.Err() != nil {
		return answer{err: s.Profile.fault(CodeInternalError, "not started, because the HTTP request was cancelled")}
	}
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			a = answer{aborted: true}
			return
		}
		if s.OnPanic != nil {
			s.OnPanic(ctx, value, debug.Stack())
		}
		a = answer{err: s.Profile.fault(CodeInternalError, "the method failed because of a bug"), panicked: true}
	}()
	result, err := s.Handler(ctx, req)
	return answer{result: result, err: err}
}

// fault returns the error to answer with, or nil if the answer is the result. It does not check
// that the result is valid JSON, only that its first byte begins a value.
func (a *answer) fault(p *Profile) *Error {
	if a.err == nil && a.result.Kind() == jsontext.KindInvalid {
		return p.fault(CodeInternalError, "the method returned no result")
	}
	return a.err
}

// refusal is the answer to an HTTP request whose body is not read.
type refusal struct {
	status int
	text   string
	// header and value say what the server accepts or demands.
	header, value string
}

// refuse answers with a refusal: as an error of the profile, else as text.
func (o *output) refuse(f *refusal) {
	o.w.Header().Set(f.header, f.value)
	if fault := o.server.Profile.refusal(f.status, f.text); fault != nil {
		o.error(f.status, nil, fault)
		return
	}
	o.w.Header().Set("Cache-Control", "no-store")
	http.Error(o.w, f.text, f.status)
}

// refusal returns the error of the profile for an HTTP status; nil: it has none.
func (p *Profile) refusal(status int, reason string) *Error {
	if p.Refuse == nil || status == http.StatusMethodNotAllowed {
		return nil
	}
	e := p.Refuse(status, reason)
	if e != nil {
		e.general = true
	}
	return e
}

var refusedCoding = &refusal{http.StatusUnsupportedMediaType, "Send the request without a Content-Encoding.", "Accept-Encoding", "identity"}

// refuse returns why the body of a request is not read; nil: it is.
func (p *Profile) refuse(r *http.Request) *refusal {
	coded := r.Header["Content-Encoding"] != nil
	switch {
	case r.Method != http.MethodPost:
		return &refusal{http.StatusMethodNotAllowed, "JSON-RPC needs a POST request.", "Allow", cmp.Or(p.Allow, http.MethodPost)}
	case coded && len(p.MediaTypes) == 0: // without a list of the profile, the type is checked last
		return refusedCoding
	case !p.acceptable(r.Header):
		return p.refusedType()
	case coded:
		return refusedCoding
	}
	return nil
}

func (p *Profile) refusedType() *refusal {
	types := p.MediaTypes
	if len(types) == 0 {
		types = defaultMediaTypes[:1]
	}
	reason := "Send the request with one Content-Type: " + strings.Join(types, " or ") + ", in UTF-8."
	return &refusal{http.StatusUnsupportedMediaType, reason, "Accept", strings.Join(types, ", ")}
}

var defaultMediaTypes = []string{"application/json", "application/json-rpc"}

// acceptable reports whether the media type is one of JSON. This protects against web pages of
// other origins: without a CORS preflight, they can post text or a form to any server,
// but not JSON (Fetch Standard, "CORS-safelisted request-header"). They can also post a
// body without a media type. Such a body is accepted only from clients that are not
// browsers, and only if the profile has no list of media types.
func (p *Profile) acceptable(h http.Header) bool {
	accepted := p.MediaTypes
	if len(accepted) == 0 {
		accepted = defaultMediaTypes
	}
	types := h["Content-Type"]
	switch len(types) {
	case 0:
		return len(p.MediaTypes) == 0 && len(h["Origin"]) == 0 && len(h["Sec-Fetch-Site"]) == 0
	case 1:
		return isOneOf(accepted, types[0])
	}
	return false
}

// isOneOf reports whether a Content-Type is one of the media types, in UTF-8.
func isOneOf(accepted []string, contentType string) bool {
	if slices.Contains(accepted, contentType) {
		return true
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || !slices.Contains(accepted, mediaType) {
		return false
	}
	charset, declared := params["charset"]
	return !declared || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8") // a label of it (Encoding Standard, section 4.2)
}
