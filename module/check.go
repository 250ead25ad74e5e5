package skillbridge

import (
	"cmp"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// maxNameSize bounds names of skills and namespaces, in bytes.
const maxNameSize = 256

// configError is a fault of the configuration. Its path is where the value
// stands in the JSON config; the Caddyfile knows which line that came from.
type configError struct {
	path  string
	owner string // how the operator calls what the path leads to; may be empty
	err   error
}

func (e *configError) Error() string {
	if e.owner == "" {
		return e.path + ": " + e.err.Error()
	}
	return e.path + " (" + e.owner + "): " + e.err.Error()
}

func (e *configError) Unwrap() error { return e.err }

// checker collects the first fault of a configuration.
type checker struct{ fault *configError }

func (c *checker) check(err error, path string) {
	if err != nil && c.fault == nil {
		c.fault = &configError{path: path, err: err}
	}
}

// element is the path of one element of a list.
func element(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// check finds the first fault of a configuration that can be found without
// loading modules. All that can be wrong with a value, or with several values
// together, is found here, whether it was written in JSON or in a Caddyfile.
func (h *Handler) check() *configError {
	c := new(checker)
	names := make(map[string]string) // operator's names of skills, and what they stand for
	namespaces := make(map[string]string)
	if h.Name != "" {
		c.check(checkName("bridge", h.Name), "name")
		c.check(checkLiteral("bridge name", h.Name), "name")
	}
	for i, p := range h.Providers {
		h.checkProvider(c, element("providers", i), p, names, namespaces)
	}
	for i, s := range h.Skills {
		h.checkSkill(c, element("skills", i), s, names, namespaces)
	}
	for i, r := range h.Registries {
		h.checkRegistry(c, element("registries", i), r, namespaces)
	}
	h.checkTrustedRegistries(c)
	h.checkCallers(c)
	h.checkTimesAndSizes(c)
	checkLimits(c, h.Limits)
	h.checkReachable(c)
	c.check(h.checkAnswerSize(), "limits.answer_size")
	c.check(h.checkAnswers(), "limits.answers")
	h.checkTrouble(c)
	h.checkNetwork(c)
	return c.fault
}

func (h *Handler) checkProvider(c *checker, path string, p *Provider, names, namespaces map[string]string) {
	if p == nil {
		c.check(errors.New("provider is null"), path)
		return
	}
	origin, err := parseOrigin(p.Origin)
	if err == nil {
		err = h.checkScheme(origin)
	}
	c.check(err, path+".origin")
	checkNamespace(c, path, p.Namespace, origin, namespaces, "provider "+p.Origin)
	for i, a := range p.Aliases {
		at := element(path+".aliases", i)
		c.check(checkName("alias", a.Name), at+".name")
		c.check(claim(names, "name", a.Name, "alias"), at+".name")
		if a.SkillID == "" {
			c.check(fmt.Errorf("alias %q stands for no skill: its id is empty", a.Name), at+".skill_id")
		}
	}
	checkTrust(c, path, p.Trust)
	checkCapabilityTypes(c, path, p.CapabilityTypes)
	c.check(checkPreferWait(p.PreferWait), path+".prefer_wait")
	checkTransport(c, path+".transport", p.TransportRaw)
	h.checkSecrets(c, path+".credentials", p.CredentialsRaw, p.RequirePrincipal)
	h.checkDiscoverySecrets(c, path+".discovery_credentials", p.DiscoveryCredentialsRaw, p.RequirePrincipal)
}

// checkTrustedRegistries checks that a provider trusts registries that there are.
func (h *Handler) checkTrustedRegistries(c *checker) {
	known := make(map[string]bool)
	for _, r := range h.Registries {
		if r == nil {
			continue
		}
		namespace := r.Namespace
		if u, err := parseURL("registry URL", r.URL); namespace == "" && err == nil {
			namespace = defaultNamespace(u)
		}
		known[namespace] = true
	}
	there := "the skill_bridge has no registry"
	if len(known) > 0 {
		there = "there are: " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	}
	for i, p := range h.Providers {
		if p == nil {
			continue
		}
		for j, namespace := range p.TrustRegistry {
			at := element(element("providers", i)+".trust_registry", j)
			switch {
			case !known[namespace]:
				c.check(fmt.Errorf("trust_registry %q is the namespace of no registry of this skill_bridge; %s", namespace, there), at)
			case slices.Contains(p.TrustRegistry[:j], namespace):
				c.check(fmt.Errorf("trust_registry %q is given twice", namespace), at)
			}
		}
	}
}

func (h *Handler) checkSkill(c *checker, path string, s *Skill, names, namespaces map[string]string) {
	if s == nil {
		c.check(errors.New("skill is null"), path)
		return
	}
	c.check(checkName("skill", s.Name), path+".name")
	c.check(claim(names, "name", s.Name, "skill"), path+".name")
	c.check(claim(namespaces, "namespace", s.Name, "skill "+s.Name), path+".name")
	u, err := parseURL("descriptor URL", s.URL)
	if err == nil {
		err = h.checkScheme(u)
	}
	c.check(err, path+".url")
	checkTrust(c, path, s.Trust)
	c.check(checkPreferWait(s.PreferWait), path+".prefer_wait")
	checkTransport(c, path+".transport", s.TransportRaw)
	h.checkSecrets(c, path+".credentials", s.CredentialsRaw, s.RequirePrincipal)
}

// checkPreferWait checks what can be said in seconds only (RFC 7240, section 4.3).
func checkPreferWait(d caddy.Duration) error {
	if wait := time.Duration(d); wait < 0 || wait%time.Second != 0 {
		return fmt.Errorf("prefer_wait %s is not a whole number of seconds", wait)
	}
	return nil
}

func (h *Handler) checkRegistry(c *checker, path string, r *Registry, namespaces map[string]string) {
	if r == nil {
		c.check(errors.New("registry is null"), path)
		return
	}
	u, err := parseURL("registry URL", r.URL)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = fmt.Errorf("registry URL %q has a query; /skills is appended to the URL, so it has to end with its path", r.URL)
	}
	if err == nil {
		err = h.checkScheme(u)
	}
	c.check(err, path+".url")
	checkNamespace(c, path, r.Namespace, u, namespaces, "registry "+r.URL)
	checkCapabilityTypes(c, path, r.CapabilityTypes)
	h.checkDiscoverySecrets(c, path+".discovery_credentials", r.DiscoveryCredentialsRaw, r.RequirePrincipal)
}

// checkCallers checks who calls, and as whom the bridge does.
func (h *Handler) checkCallers(c *checker) {
	if h.Principal != "" {
		c.check(checkPrincipal(h.Principal), "principal")
	}
	if h.RequirePrincipal && h.AllowAnonymous {
		c.check(errors.New("require_principal and allow_anonymous exclude each other"), "allow_anonymous")
	}
	switch skillsharing.Priority(h.Priority) {
	case "", skillsharing.PriorityLow, skillsharing.PriorityNormal, skillsharing.PriorityHigh:
	default:
		c.check(fmt.Errorf("priority %q is none of low, normal and high", h.Priority), "priority")
	}
}

func (h *Handler) checkTimesAndSizes(c *checker) {
	checkSpan(c, "timeout", h.Timeout, defaultTimeout, h.MaxTimeout, defaultMaxTimeout)
	checkSpan(c, "poll_interval", h.PollInterval, defaultPollInterval, h.MaxPollInterval, defaultMaxPollInterval)
	c.check(h.Poll.check(), "poll")
	if h.Poll != nil && (h.PollInterval != 0 || h.MaxPollInterval != 0) {
		c.check(errors.New("poll and poll_interval exclude each other: poll_interval is poll backoff"), "poll")
	}
	c.check(checkSize("max_request_size", h.MaxRequestSize), "max_request_size")
	c.check(checkSize("max_response_size", h.MaxResponseSize), "max_response_size")
	c.check(checkCount("max_batch", h.MaxBatch), "max_batch")
	if h.Cache == nil {
		return
	}
	c.check(checkSize("max_size", h.Cache.MaxSize), "cache.max_size")
	for _, d := range []struct {
		name  string
		value *caddy.Duration
	}{
		{"ttl", h.Cache.TTL},
		{"max_ttl", &h.Cache.MaxTTL},
		{"stale_if_error", h.Cache.StaleIfError},
		{"negative_ttl", h.Cache.NegativeTTL},
	} {
		if d.value != nil && *d.value < 0 {
			c.check(fmt.Errorf("%s %s is negative", d.name, time.Duration(*d.value)), "cache."+d.name)
		}
	}
	if longest := orDefault(h.Cache.MaxTTL, defaultMaxTTL); h.Cache.TTL != nil && time.Duration(*h.Cache.TTL) > longest {
		c.check(fmt.Errorf("ttl %s is longer than max_ttl, which is %s%s, so it can't be reached", time.Duration(*h.Cache.TTL), longest, unlessSaid(h.Cache.MaxTTL == 0)), "cache.ttl")
	}
}

// Bounds of how deep JSON may nest: a request is an object that has another, and
// the decoder itself reads no more levels than the most.
const (
	minDepth = 2
	maxDepth = 10_000
)

func checkLimits(c *checker, l *Limits) {
	if l == nil {
		return
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"depth", l.Depth},
		{"skills", l.Skills},
		{"parameters", l.Parameters},
		{"schema_complexity", l.SchemaComplexity},
		{"argument_complexity", l.ArgumentComplexity},
		{"runs", l.Runs},
		{"runs_per_provider", l.RunsPerProvider},
		{"reads", l.Reads},
		{"failed_reads", l.FailedReads},
		{"polls", l.Polls},
		{"waiting", l.Waiting},
	} {
		c.check(checkCount(n.name, n.value), "limits."+n.name)
	}
	if l.Depth != 0 && (l.Depth < minDepth || l.Depth > maxDepth) {
		c.check(fmt.Errorf("depth %d is out of range: it is %d to %d", l.Depth, minDepth, maxDepth), "limits.depth")
	}
	if runs := cmp.Or(l.Runs, defaultMaxRuns); l.RunsPerProvider > runs {
		c.check(fmt.Errorf("%d runs per provider are more than the %d in all", l.RunsPerProvider, runs), "limits.runs_per_provider")
	}
	c.check(l.checkWaiting(), "limits.waiting")
	c.check(checkSize("document_size", l.DocumentSize), "limits.document_size")
	c.check(checkSize("schema_size", l.SchemaSize), "limits.schema_size")
	if l.SchemaSize > math.MaxInt/4 { // all schemas of a skill have four times as much
		c.check(fmt.Errorf("schema_size %d is too large", l.SchemaSize), "limits.schema_size")
	}
	c.check(checkSize("output_size", l.OutputSize), "limits.output_size")
	c.check(checkSize("answer_size", l.AnswerSize), "limits.answer_size")
	c.check(checkSize("answers", l.Answers), "limits.answers")
	c.check(checkLeast("body_timeout", l.BodyTimeout), "limits.body_timeout")
	c.check(checkOverhead(l.ConnectionOverhead), "limits.connection_overhead")
}

// checkReachable checks that documents and outputs of the sizes that are allowed can be read at all.
func (h *Handler) checkReachable(c *checker) {
	if h.Limits == nil {
		return
	}
	for _, n := range []struct {
		name string
		size int64
	}{
		{"document_size", h.Limits.DocumentSize},
		{"output_size", h.Limits.OutputSize},
	} {
		if n.size > h.maxResponseSize() {
			c.check(fmt.Errorf("%s %d is more than max_response_size, which is %d%s, so it can't be reached",
				n.name, n.size, h.maxResponseSize(), unlessSaid(h.MaxResponseSize == 0)), "limits."+n.name)
		}
	}
}

// unlessSaid tells of a value that it is the default.
func unlessSaid(byDefault bool) string {
	if byDefault {
		return " unless you say otherwise"
	}
	return ""
}

// checkTrouble checks what is done about providers that are in trouble.
func (h *Handler) checkTrouble(c *checker) {
	if b := h.CircuitBreaker; b != nil {
		c.check(checkCount("failures", b.Failures), "circuit_breaker.failures")
		if b.Failures > math.MaxInt32 {
			c.check(fmt.Errorf("failures %d is too large", b.Failures), "circuit_breaker.failures")
		}
		c.check(checkLeast("cooldown", b.Cooldown), "circuit_breaker.cooldown")
		if b.Off && (b.Failures != 0 || b.Cooldown != 0) {
			c.check(errors.New("circuit_breaker is off, so it can have neither failures nor cooldown"), "circuit_breaker")
		}
	}
	if share := h.RetryBudget; share != nil && (*share < 0 || *share > 100) {
		c.check(fmt.Errorf("retry_budget %d is out of range: it is a percentage from 0 to 100", *share), "retry_budget")
	}
}

func (h *Handler) checkNetwork(c *checker) {
	for i, text := range h.AllowNetworks {
		_, err := parseNetwork(text)
		c.check(err, element("allow_networks", i))
	}
	for i, port := range h.AllowPorts {
		if port < 1 || port > math.MaxUint16 {
			c.check(fmt.Errorf("port %d is out of range: ports are 1 to 65535", port), element("allow_ports", i))
		}
	}
	checkTransport(c, "transport", h.TransportRaw)
}

// checkScheme checks whether a URL may be reached with the scheme it has.
func (h *Handler) checkScheme(u *url.URL) error {
	if u.Scheme == "http" && !h.AllowHTTP {
		return fmt.Errorf("%s is not reached over TLS; write https://, or allow_http if that is meant", u)
	}
	return nil
}

// checkSecrets checks that whoever configures a secret has said who may use it:
// for all, or for the provider, skill or registry that has it.
func (h *Handler) checkSecrets(c *checker, path string, credentials json.RawMessage, requirePrincipal bool) {
	if len(credentials) == 0 {
		return
	}
	if !jsontext.Value(credentials).IsValid() {
		c.check(errors.New("credentials are not valid JSON, or have the same member twice"), path)
	}
	if !requirePrincipal && !h.RequirePrincipal && !h.AllowAnonymous {
		c.check(errors.New("credentials need require_principal, here or for the whole bridge (only callers who have proved who they are may use them), or allow_anonymous for the whole bridge (everyone who reaches it may)"), path)
	}
}

// checkDiscoverySecrets is checkSecrets for credentials that are to read documents.
// Whether they can is asked of the module itself once it is loaded; what most
// often keeps oauth2 from it is found here, where the Caddyfile's line is known.
func (h *Handler) checkDiscoverySecrets(c *checker, path string, credentials json.RawMessage, requirePrincipal bool) {
	h.checkSecrets(c, path, credentials, requirePrincipal)
	var config struct {
		Type     string `json:"type"`
		TokenURL string `json:"token_url"`
	}
	if json.Unmarshal(credentials, &config) == nil && config.Type == "oauth2" && config.TokenURL == "" {
		c.check(errors.New("discovery_credentials oauth2 needs token_url: an index and a descriptor are read before any descriptor could name a token endpoint"), path)
	}
}

// checkSpan checks a duration and its maximum.
func checkSpan(c *checker, name string, value caddy.Duration, standard time.Duration, limit caddy.Duration, standardLimit time.Duration) {
	c.check(checkLeast(name, value), name)
	from, to := orDefault(value, standard), orDefault(limit, standardLimit)
	switch {
	case to < time.Millisecond:
		c.check(fmt.Errorf("maximum of %s %s is too short: the least is 1ms", name, to), "max_"+name)
	case from > to:
		c.check(fmt.Errorf("%s %s is longer than its maximum of %s", name, from, to), name)
	}
}

// checkLeast checks that a duration, of which 0 stands for the default, is not too
// short to be meant.
func checkLeast(name string, d caddy.Duration) error {
	if d != 0 && time.Duration(d) < time.Millisecond {
		return fmt.Errorf("%s %s is too short: the least is 1ms", name, time.Duration(d))
	}
	return nil
}

// checkCount checks a number, of which 0 stands for the default.
func checkCount(name string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s %d is negative", name, n)
	}
	return nil
}

// checkSize checks a number of bytes, of which 0 stands for the default. The
// largest number is left out, so that one more can always be counted.
func checkSize(name string, size int64) error {
	switch {
	case size < 0:
		return fmt.Errorf("%s %d is negative", name, size)
	case size == math.MaxInt64:
		return fmt.Errorf("%s %d is too large", name, size)
	}
	return nil
}

// checkOverhead checks what a connection may carry beside answers: what may come before
// it is read, and header fields, are part of that.
func checkOverhead(overhead int64) error {
	if 0 < overhead && overhead < minConnectionOverhead {
		return fmt.Errorf("connection_overhead %d is too small: the least is %d (256KiB)", overhead, minConnectionOverhead)
	}
	return checkSize("connection_overhead", overhead)
}

func checkTrust(c *checker, path string, trust []string) {
	for i, host := range trust {
		c.check(checkHost(host), element(path+".trust", i))
	}
}

// checkLiteral refuses placeholders in a text in which none is resolved: it would be taken literally.
func checkLiteral(what, text string) error {
	if strings.Contains(text, "{") {
		return fmt.Errorf("%s %q has a placeholder, or a brace: placeholders are not resolved here; write the value itself", what, text)
	}
	return nil
}

// checkHost checks a host that may receive secrets.
func checkHost(text string) error {
	if err := checkLiteral("trusted host", text); err != nil {
		return err
	}
	host := strings.TrimPrefix(text, "*.")
	switch {
	case strings.Contains(text, "://"):
		return fmt.Errorf("trusted host %q has a scheme; write only the host and, if it is not 443, the port", text)
	case strings.Contains(host, "*"):
		return fmt.Errorf("trusted host %q has a wildcard that is not its first label; write *.example.com for all subdomains of example.com, or name each host", text)
	case strings.Contains(text, "/"):
		return fmt.Errorf("trusted host %q has a path; write only the host and, if it is not 443, the port", text)
	case strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "["):
		return fmt.Errorf("trusted host %q: an IPv6 address has to stand in brackets", text)
	}
	u, err := url.Parse("https://" + host)
	if err != nil {
		return fmt.Errorf("trusted host %q is not a host with an optional port", text)
	}
	if err := checkAuthority(u); err != nil {
		return fmt.Errorf("trusted host %q: %w", text, err)
	}
	_, err = skillsharing.NewAudience(u, []string{text})
	return err
}

func checkCapabilityTypes(c *checker, path string, types []string) {
	known := []skillsharing.CapabilityType{skillsharing.Plugin, skillsharing.API, skillsharing.Knowledge, skillsharing.Task}
	for i, t := range types {
		at := element(path+".capability_types", i)
		if !slices.Contains(known, skillsharing.CapabilityType(t)) {
			c.check(fmt.Errorf("capability type %q is none of plugin, api, knowledge and task", t), at)
		}
		if slices.Contains(types[:i], t) {
			c.check(fmt.Errorf("capability type %q is given twice", t), at)
		}
	}
}

// checkTransport checks what can be told of a transport before it is loaded.
func checkTransport(c *checker, path string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	_, err := parseTransport(raw)
	c.check(err, path)
}

func checkNamespace(c *checker, path, namespace string, u *url.URL, namespaces map[string]string, owner string) {
	if namespace == "" && u != nil {
		namespace = defaultNamespace(u)
		if err := checkNamespaceText(namespace); err != nil {
			c.check(fmt.Errorf("%s needs a namespace of its own, since its host can't be one: %w", owner, err), path+".namespace")
			return
		}
	}
	c.check(checkNamespaceText(namespace), path+".namespace")
	c.check(claim(namespaces, "namespace", namespace, owner), path+".namespace")
}

func checkNamespaceText(namespace string) error {
	if len(namespace) > maxNameSize {
		return fmt.Errorf("namespace %.20q… is longer than %d bytes", namespace, maxNameSize)
	}
	for _, r := range namespace {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r) {
			return fmt.Errorf("namespace %q has the character %q; letters, digits, '.', '-' and '_' are allowed", namespace, r)
		}
	}
	return nil
}

// defaultNamespace is the host's name in lower case.
func defaultNamespace(u *url.URL) string { return strings.ToLower(u.Hostname()) }

// checkName checks a name that the operator gives to a skill.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has an empty name", what)
	case len(name) > maxNameSize:
		return fmt.Errorf("%s name %.20q… is longer than %d bytes", what, name, maxNameSize)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s name %q is not valid UTF-8", what, name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fmt.Errorf("%s name %q has a space or a control character", what, name)
	}
	return nil
}

// claim takes a name for owner, unless it is taken.
func claim(taken map[string]string, what, name, owner string) error {
	if other, ok := taken[name]; ok {
		return fmt.Errorf("%s %q is given twice: to %s and to %s; give one of them another", what, name, other, owner)
	}
	taken[name] = owner
	return nil
}

// checkPrincipal checks that a principal is one placeholder and nothing else. Any
// text around it would make a principal of those who have none.
func checkPrincipal(text string) error {
	name, isPlaceholder := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !isPlaceholder || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return fmt.Errorf("principal %q has to be one placeholder, such as %s", text, defaultPrincipal)
	}
	return nil
}

// parseOrigin reads a provider's origin.
func parseOrigin(text string) (*url.URL, error) {
	u, err := parseURL("provider origin", text)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Path != "" && u.Path != "/":
		return nil, fmt.Errorf("provider origin %q has a path; an origin is scheme, host and port only: the index is always under /.well-known/skill-sharing", text)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("provider origin %q has a query; an origin is scheme, host and port only", text)
	}
	u.Path = ""
	return u, nil
}

// parseURL reads an absolute http or https URL.
func parseURL(what, text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is empty", what)
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse repeats the text, which may hold a password.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		if !strings.Contains(text, "://") {
			return nil, fmt.Errorf("%s has to start with https:// or http://", what)
		}
		return nil, fmt.Errorf("%s is not a URL: %w", what, err)
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s %q has to start with https:// or http://", what, u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%s %q has user information before its host; use credentials instead", what, u.Redacted())
	case u.Host == "":
		return nil, fmt.Errorf("%s %q has no host", what, text)
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, fmt.Errorf("%s %q has a fragment, which is never sent", what, text)
	}
	if err := checkAuthority(u); err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, text, err)
	}
	return u, nil
}

// checkAuthority checks the host and port of a URL.
func checkAuthority(u *url.URL) error {
	if _, err := skillsharing.NewAudience(u, nil); err != nil {
		return err
	}
	if strings.HasSuffix(u.Host, ":") {
		return errors.New("there is a colon without a port")
	}
	return checkSpelling(u.Hostname())
}

// parseNetwork reads a network in CIDR notation, or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	prefix, err := caddyhttp.CIDRExpressionToPrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("network %q is neither an address nor a CIDR range, such as 10.0.0.0/8", text)
	case strings.Contains(text, "%"): // which Caddy drops
		return netip.Prefix{}, fmt.Errorf("network %q has a zone", text)
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("network %q is an IPv4 network written as IPv6; write it as IPv4", text)
	}
	return prefix.Masked(), nil
}
