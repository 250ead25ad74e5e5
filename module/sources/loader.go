package sources

import (
	"encoding/json" // for Caddy's raw modules

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

// loader loads the transports and credentials of sources.
type loader struct {
	ctx      caddy.Context
	rules    *network.Rules
	standard *network.Transport // of sources without the option transport
	overhead int64              // that connections may carry besides answers
	idle     []func()           // close the idle connections of all transports
}

// Load loads the transports and credentials of the sources. Those without the option transport
// use the standard one. It also returns functions that close the idle connections of all transports.
func (from *Sources) Load(ctx caddy.Context, rules *network.Rules, overhead int64, standard json.RawMessage) ([]catalog.Source, []func(), error) {
	l := &loader{ctx: ctx, rules: rules, overhead: overhead}
	var err error
	if l.standard, err = l.newTransport(standard); err != nil {
		return nil, nil, &options.ConfigError{Path: "transport", Err: err}
	}
	var loaded []catalog.Source
	for _, s := range from.sources() {
		if err := l.load(&s); err != nil {
			return nil, nil, err
		}
		loaded = append(loaded, s.Source)
	}
	return loaded, l.idle, nil
}

// load loads the transport and the credentials of a source.
func (l *loader) load(s *source) (err error) {
	if s.err != nil {
		return s.fault(s.field, s.err)
	}
	t := l.standard
	if len(s.transport) > 0 {
		if t, err = l.newTransport(s.transport); err != nil {
			return s.fault(".transport", err)
		}
	}
	s.Transport, s.Certificate = t, t.HasCertificate()
	if s.Partition, err = partition(&s.Source, s.discovery, s.transport); err != nil {
		return s.fault(".discovery_credentials", err)
	}
	ctx := credentials.WithOwner(l.ctx, s.Namespace)
	if s.Credentials, err = loadCredentials(ctx, s.module, "CredentialsRaw", s.credentials); err != nil {
		return s.fault(".credentials", err)
	}
	s.DiscoveryCredentials, err = loadDiscoveryCredentials(ctx, s.module, "DiscoveryCredentialsRaw", s.discovery)
	if err != nil {
		return s.fault(".discovery_credentials", err)
	}
	return nil
}

func (l *loader) newTransport(raw json.RawMessage) (*network.Transport, error) {
	t, err := network.NewTransport(l.ctx, raw, l.rules, l.overhead)
	if err != nil {
		return nil, err
	}
	l.idle = append(l.idle, t.CloseIdleConnections)
	return t, nil
}
