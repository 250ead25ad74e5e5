package bridge

import (
	"cmp"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const (
	maxNameSize = 256 // of skills and namespaces, in bytes

	// A request needs two levels: an object in an object. The decoder's maximum is 10,000.
	minDepth = 2
	maxDepth = 10_000
)

// checker keeps the first fault of a configuration.
type checker struct{ fault *options.ConfigError }

func (c *checker) check(path string, err error) {
	if err != nil && c.fault == nil {
		c.fault = &options.ConfigError{Path: path, Err: err}
	}
}

// check returns the first fault of a configuration that can be found without loading modules,
// whether the configuration was written in JSON or in a Caddyfile.
func (h *Handler) check() *options.ConfigError {
	c := new(checker)
	for i, p := range h.Providers {
		c.check(options.Element("providers", i), checkNotNull("provider", p == nil))
	}
	for i, s := range h.Skills {
		c.check(options.Element("skills", i), checkNotNull("skill", s == nil))
	}
	for i, r := range h.Registries {
		c.check(options.Element("registries", i), checkNotNull("registry", r == nil))
	}
	if c.fault != nil {
		return c.fault
	}
	if h.Name != "" {
		c.check("name", checkName("bridge", h.Name))
		c.check("name", checkLiteral("bridge name", h.Name))
	}
	h.checkSources(c)
	h.Callers.check(c)
	switch skillsharing.Priority(h.Priority) {
	case "", skillsharing.PriorityLow, skillsharing.PriorityNormal, skillsharing.PriorityHigh:
	default:
		c.check("priority", fmt.Errorf("priority %q is none of low, normal and high", h.Priority))
	}
	h.checkAmounts(c)
	h.Bounds.check(c)
	h.Network.check(c)
	return c.fault
}

func checkNotNull(what string, null bool) error {
	if null {
		return errors.New(what + " is null")
	}
	return nil
}

func (h *Handler) checkSources(c *checker) {
	names := make(map[string]string) // of skills and aliases, with their owners
	namespaces := make(map[string]string)
	registries := make(map[string]bool) // by namespace
	sources := h.sources()
	for _, s := range sources {
		c.check(s.path+s.field, cmp.Or(s.err, h.checkScheme(s.URL)))
		switch s.Kind {
		case catalog.SkillSource:
			c.check(s.path+".name", cmp.Or(
				checkName("skill", s.name), claim(names, "name", s.name, "skill"), claim(namespaces, "namespace", s.name, "skill "+s.name),
			))
		case catalog.RegistrySource:
			registries[s.Namespace] = true
			checkNamespace(c, &s, "registry "+s.name, namespaces)
		case catalog.ProviderSource:
			checkNamespace(c, &s, "provider "+s.name, namespaces)
		}
		for i, a := range s.Aliases {
			at := options.Element(s.path+".aliases", i)
			c.check(at+".name", cmp.Or(checkName("alias", a.Name), claim(names, "name", a.Name, "alias")))
			if a.SkillID == "" {
				c.check(at+".skill_id", fmt.Errorf("alias %q has an empty skill id", a.Name))
			}
		}
		for i, host := range s.Trust {
			c.check(options.Element(s.path+".trust", i), checkHost(host))
		}
		checkCapabilityTypes(c, s.path+".capability_types", s.CapabilityTypes)
		if s.PreferWait < 0 || s.PreferWait%time.Second != 0 { // RFC 7240, section 4.3
			c.check(s.path+".prefer_wait", fmt.Errorf("prefer_wait %s is not a whole number of seconds", s.PreferWait))
		}
		c.check(s.path+".transport", checkTransport(s.transport))
		c.check(s.path+".credentials", h.checkSecrets(s.credentials, s.RequirePrincipal))
		c.check(s.path+".discovery_credentials", cmp.Or(h.checkSecrets(s.discovery, s.RequirePrincipal), checkTokenURL(s.discovery)))
	}
	for _, s := range sources {
		for i, namespace := range s.TrustRegistries {
			c.check(options.Element(s.path+".trust_registry", i), checkTrustRegistry(s.TrustRegistries[:i], namespace, registries))
		}
	}
}

func checkTrustRegistry(before []string, namespace string, registries map[string]bool) error {
	known := "this skill_bridge has no registry"
	if len(registries) > 0 {
		known = "there are: " + strings.Join(slices.Sorted(maps.Keys(registries)), ", ")
	}
	switch {
	case !registries[namespace]:
		return fmt.Errorf("trust_registry %q is not the namespace of a registry in this skill_bridge; %s", namespace, known)
	case slices.Contains(before, namespace):
		return fmt.Errorf("trust_registry %q is given twice", namespace)
	}
	return nil
}

// checkAmounts checks numbers, sizes and durations, and durations against their maxima.
func (h *Handler) checkAmounts(c *checker) {
	cache := cmp.Or(h.Cache, new(Cache))
	limits := cmp.Or(h.Limits, new(Limits))
	breaker := cmp.Or(h.CircuitBreaker, new(CircuitBreaker))
	for _, amount := range []struct {
		path  string
		value any
	}{
		{"timeout", h.Timeout},
		{"poll_interval", h.PollInterval},
		{"max_request_size", h.MaxRequestSize},
		{"max_response_size", h.MaxResponseSize},
		{"max_batch", h.MaxBatch},
		{"cache.max_size", cache.MaxSize},
		{"cache.ttl", cache.TTL},
		{"cache.max_ttl", &cache.MaxTTL},
		{"cache.stale_if_error", cache.StaleIfError},
		{"cache.negative_ttl", cache.NegativeTTL},
		{"limits.depth", limits.Depth},
		{"limits.document_size", limits.DocumentSize},
		{"limits.skills", limits.Skills},
		{"limits.parameters", limits.Parameters},
		{"limits.schema_size", limits.SchemaSize},
		{"limits.schema_complexity", limits.SchemaComplexity},
		{"limits.argument_complexity", limits.ArgumentComplexity},
		{"limits.output_size", limits.OutputSize},
		{"limits.answer_size", limits.AnswerSize},
		{"limits.answers", limits.Answers},
		{"limits.body_timeout", limits.BodyTimeout},
		{"limits.connection_overhead", limits.ConnectionOverhead},
		{"limits.runs", limits.Runs},
		{"limits.runs_per_provider", limits.RunsPerProvider},
		{"limits.reads", limits.Reads},
		{"limits.failed_reads", limits.FailedReads},
		{"limits.polls", limits.Polls},
		{"limits.waiting", limits.Waiting},
		{"circuit_breaker.failures", breaker.Failures},
		{"circuit_breaker.cooldown", breaker.Cooldown},
	} {
		c.check(amount.path, checkAmount(amount.path[strings.LastIndex(amount.path, ".")+1:], amount.value))
	}
	h.Timing.check(c)
	if ttl, longest := orDefaultPointer(cache.TTL, 0), orDefault(cache.MaxTTL, defaultMaxTTL); ttl > longest {
		c.check("cache.ttl", fmt.Errorf("ttl %s is longer than max_ttl, which is %s%s, so it has no effect",
			ttl, longest, byDefaultText(cache.MaxTTL == 0)))
	}
	if breaker.Failures > math.MaxInt32 {
		c.check("circuit_breaker.failures", fmt.Errorf("failures %d is too large", breaker.Failures))
	}
	if breaker.Off && (breaker.Failures != 0 || breaker.Cooldown != 0) {
		c.check("circuit_breaker", errors.New("circuit_breaker is off, so it can have neither failures nor cooldown"))
	}
	if share := h.RetryBudget; share != nil && (*share < 0 || *share > 100) {
		c.check("retry_budget", fmt.Errorf("retry_budget %d is out of range: it is a percentage from 0 to 100", *share))
	}
}

// checkAmount checks a value of which 0 stands for the default.
func checkAmount(name string, value any) error {
	switch v := value.(type) {
	case int:
		if v < 0 {
			return fmt.Errorf("%s %d is negative", name, v)
		}
	case int64:
		switch {
		case v < 0:
			return fmt.Errorf("%s %d is negative", name, v)
		case v == math.MaxInt64: // so that limit+1 does not overflow
			return fmt.Errorf("%s %d is too large", name, v)
		}
	case caddy.Duration:
		if v != 0 && time.Duration(v) < time.Millisecond {
			return fmt.Errorf("%s %s is too short: the minimum is 1ms", name, time.Duration(v))
		}
	case *caddy.Duration:
		if v != nil && *v < 0 {
			return fmt.Errorf("%s %s is negative", name, time.Duration(*v))
		}
	}
	return nil
}

// checkSpan checks a duration against its maximum.
func checkSpan(c *checker, name string, value, limit time.Duration) {
	switch {
	case limit < time.Millisecond:
		c.check("max_"+name, fmt.Errorf("maximum of %s %s is too short: the minimum is 1ms", name, limit))
	case value > limit:
		c.check(name, fmt.Errorf("%s %s is longer than its maximum of %s", name, value, limit))
	}
}

// byDefaultText returns the text that says that a value is the default.
func byDefaultText(byDefault bool) string {
	if byDefault {
		return " by default"
	}
	return ""
}

// checkTokenURL finds discovery credentials of kind oauth2 without a token_url. The module itself
// reports whether it supports discovery, but only after it was loaded, when the line of the
// Caddyfile is no longer known.
func checkTokenURL(credentials json.RawMessage) error {
	var config struct {
		Type     string `json:"type"`
		TokenURL string `json:"token_url"`
	}
	if json.Unmarshal(credentials, &config) == nil && config.Type == "oauth2" && config.TokenURL == "" {
		return errors.New("discovery_credentials oauth2 needs token_url: " +
			"the index and descriptors are read before a descriptor can name a token endpoint")
	}
	return nil
}

// checkTransport checks a transport as far as possible without loading it.
func checkTransport(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	_, err := network.ParseTransport(raw)
	return err
}

func checkCapabilityTypes(c *checker, path string, types []document.CapabilityType) {
	known := []document.CapabilityType{document.Plugin, document.API, document.Knowledge, document.Task}
	for i, t := range types {
		at := options.Element(path, i)
		if !slices.Contains(known, t) {
			c.check(at, fmt.Errorf("capability type %q is none of plugin, api, knowledge and task", t))
		}
		if slices.Contains(types[:i], t) {
			c.check(at, fmt.Errorf("capability type %q is given twice", t))
		}
	}
}

// checkNamespace checks the namespace of a source. The default is its host name.
func checkNamespace(c *checker, s *source, owner string, namespaces map[string]string) {
	err := checkNamespaceText(s.Namespace)
	if err != nil && s.URL != nil && s.Namespace == namespaceOf("", s.URL) {
		err = fmt.Errorf("%s needs a namespace option, since its host name is not a valid namespace: %w", owner, err)
	}
	c.check(s.path+".namespace", cmp.Or(err, claim(namespaces, "namespace", s.Namespace, owner)))
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

// claim registers a name for owner. It fails if the name has another owner.
func claim(taken map[string]string, what, name, owner string) error {
	if other, ok := taken[name]; ok {
		return fmt.Errorf("%s %q is given twice: to %s and to %s; give one of them another", what, name, other, owner)
	}
	taken[name] = owner
	return nil
}
