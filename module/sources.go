package skillbridge

import (
	"encoding/json" // for Caddy's raw modules
	"net/netip"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// builder loads what the sources of skills are made of.
type builder struct {
	ctx      caddy.Context
	rules    *rules
	standard *transport // of sources without one of their own
	overhead int64      // of connections of HTTP/2
	idle     []func()   // close the idle connections of all transports
}

func (b *builder) sources(h *Handler) ([]translate.Source, error) {
	var err error
	if b.standard, err = b.load(h.TransportRaw); err != nil {
		return nil, &configError{path: "transport", err: err}
	}
	var sources []translate.Source
	for i, p := range h.Providers {
		s, err := b.provider(element("providers", i), p)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	for i, skill := range h.Skills {
		s, err := b.skill(element("skills", i), skill)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	for i, r := range h.Registries {
		s, err := b.registry(element("registries", i), r)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// faults makes errors about the parts of a source, which also say how the
// operator calls it.
func faults(path, owner string) func(part string, err error) error {
	return func(part string, err error) error {
		return &configError{path: path + part, owner: owner, err: err}
	}
}

func (b *builder) provider(path string, p *Provider) (s translate.Source, err error) {
	fault := faults(path, p.Origin)
	s = translate.Source{
		Kind: translate.ProviderSource, Namespace: p.Namespace, Trust: p.Trust, TrustRegistries: p.TrustRegistry,
		CapabilityTypes: capabilityTypes(p.CapabilityTypes), ListPrivate: p.ListPrivate, RequirePrincipal: p.RequirePrincipal,
		PreferWait: time.Duration(p.PreferWait),
	}
	if s.URL, err = parseOrigin(p.Origin); err != nil {
		return s, fault(".origin", err)
	}
	if s.Namespace == "" {
		s.Namespace = defaultNamespace(s.URL)
	}
	for _, a := range p.Aliases {
		s.Aliases = append(s.Aliases, translate.Alias{Name: a.Name, SkillID: a.SkillID})
	}
	if err = b.carry(&s, p.TransportRaw); err != nil {
		return s, fault(".transport", err)
	}
	if s.Partition, err = partition(&s, p.DiscoveryCredentialsRaw, p.TransportRaw); err != nil {
		return s, fault(".discovery_credentials", err)
	}
	if s.Credentials, err = loadCredentials(credentials.WithOwner(b.ctx, s.Namespace), p, "CredentialsRaw", p.CredentialsRaw); err != nil {
		return s, fault(".credentials", err)
	}
	if s.DiscoveryCredentials, err = loadDiscoveryCredentials(credentials.WithOwner(b.ctx, s.Namespace), p, "DiscoveryCredentialsRaw", p.DiscoveryCredentialsRaw); err != nil {
		return s, fault(".discovery_credentials", err)
	}
	return s, nil
}

func (b *builder) skill(path string, skill *Skill) (s translate.Source, err error) {
	fault := faults(path, skill.Name)
	s = translate.Source{Kind: translate.SkillSource, Namespace: skill.Name, Trust: skill.Trust, RequirePrincipal: skill.RequirePrincipal, PreferWait: time.Duration(skill.PreferWait)}
	if s.URL, err = parseURL("descriptor URL", skill.URL); err != nil {
		return s, fault(".url", err)
	}
	if err = b.carry(&s, skill.TransportRaw); err != nil {
		return s, fault(".transport", err)
	}
	if s.Partition, err = partition(&s, nil, skill.TransportRaw); err != nil {
		return s, fault("", err)
	}
	if s.Credentials, err = loadCredentials(credentials.WithOwner(b.ctx, s.Namespace), skill, "CredentialsRaw", skill.CredentialsRaw); err != nil {
		return s, fault(".credentials", err)
	}
	return s, nil
}

func (b *builder) registry(path string, r *Registry) (s translate.Source, err error) {
	fault := faults(path, r.URL)
	s = translate.Source{
		Kind: translate.RegistrySource, Namespace: r.Namespace,
		CapabilityTypes: capabilityTypes(r.CapabilityTypes), RequirePrincipal: r.RequirePrincipal,
	}
	if s.URL, err = parseURL("registry URL", r.URL); err != nil {
		return s, fault(".url", err)
	}
	if s.Namespace == "" {
		s.Namespace = defaultNamespace(s.URL)
	}
	if err = b.carry(&s, nil); err != nil {
		return s, fault("", err)
	}
	if s.Partition, err = partition(&s, r.DiscoveryCredentialsRaw, nil); err != nil {
		return s, fault(".discovery_credentials", err)
	}
	if s.DiscoveryCredentials, err = loadDiscoveryCredentials(credentials.WithOwner(b.ctx, s.Namespace), r, "DiscoveryCredentialsRaw", r.DiscoveryCredentialsRaw); err != nil {
		return s, fault(".discovery_credentials", err)
	}
	return s, nil
}

// carry gives a source its transport: its own, or else the handler's.
func (b *builder) carry(s *translate.Source, raw json.RawMessage) error {
	t := b.standard
	if len(raw) > 0 {
		var err error
		if t, err = b.load(raw); err != nil {
			return err
		}
	}
	s.Transport, s.Certificate = t, t.unidentified != nil
	return nil
}

func (b *builder) load(raw json.RawMessage) (*transport, error) {
	t, err := newTransport(b.ctx, raw, b.rules, b.overhead)
	if err != nil {
		return nil, err
	}
	b.idle = append(b.idle, t.CloseIdleConnections)
	return t, nil
}

// warnRefused tells the operator of sources that will never be reached, because
// the guard refuses the address that is written in their URLs. It is no error: a
// configuration may be checked where it is not used.
func (b *builder) warnRefused(logger *zap.Logger, sources []translate.Source) {
	for _, s := range sources {
		address, err := netip.ParseAddr(s.URL.Hostname())
		if err != nil || b.rules.allows(address) {
			continue
		}
		logger.Warn("a source of skills will not be reached: its address is not public; if it may be reached, add the line below",
			zap.String("source", s.Namespace),
			zap.String("host", s.URL.Host),
			zap.String("line", "allow_networks "+address.String()))
	}
}

func capabilityTypes(texts []string) []skillsharing.CapabilityType {
	types := make([]skillsharing.CapabilityType, len(texts))
	for i, text := range texts {
		types[i] = skillsharing.CapabilityType(text)
	}
	return types
}

// ports are those that may be called: the standard ones, those allowed, and all
// that are written in the configuration.
func (h *Handler) ports() (map[uint16]bool, error) {
	ports := map[uint16]bool{80: true, 443: true}
	for _, port := range h.AllowPorts {
		ports[uint16(port)] = true //nolint:gosec // in range: checked before
	}
	for _, text := range h.writtenURLs() {
		if u, err := url.Parse(text); err == nil {
			addPort(ports, u)
		}
	}
	for _, raw := range h.writtenCredentials() {
		texts, err := resolvedTexts(raw)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if u, err := url.Parse(text); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
				addPort(ports, u)
			}
		}
	}
	return ports, nil
}

// writtenURLs returns the URLs and trusted hosts of the configuration.
func (h *Handler) writtenURLs() []string {
	urls := make([]string, 0, len(h.Providers)+len(h.Skills)+len(h.Registries))
	trust := func(hosts []string) {
		for _, host := range hosts {
			urls = append(urls, "https://"+host)
		}
	}
	for _, p := range h.Providers {
		urls = append(urls, p.Origin)
		trust(p.Trust)
	}
	for _, s := range h.Skills {
		urls = append(urls, s.URL)
		trust(s.Trust)
	}
	for _, r := range h.Registries {
		urls = append(urls, r.URL)
	}
	return urls
}

// writtenCredentials returns the configurations of guest modules, which may name
// URLs of their own, such as that of a token endpoint.
func (h *Handler) writtenCredentials() []json.RawMessage {
	all := make([]json.RawMessage, 0, 2*len(h.Providers)+len(h.Skills)+len(h.Registries))
	for _, p := range h.Providers {
		all = append(all, p.CredentialsRaw, p.DiscoveryCredentialsRaw)
	}
	for _, s := range h.Skills {
		all = append(all, s.CredentialsRaw)
	}
	for _, r := range h.Registries {
		all = append(all, r.DiscoveryCredentialsRaw)
	}
	return all
}
