package sources

import (
	"encoding/json" // for Caddy's raw modules
	"net/url"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
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
// use the standard one, which it returns, too, with functions that close the idle connections of all transports.
func (from *Sources) Load(ctx caddy.Context, rules *network.Rules, overhead int64, standard json.RawMessage) ([]catalog.Source, *network.Transport, []func(), error) {
	l := &loader{ctx: ctx, rules: rules, overhead: overhead}
	var err error
	if l.standard, err = l.newTransport(standard); err != nil {
		return nil, nil, nil, &options.ConfigError{Path: "transport", Err: err}
	}
	var loaded []catalog.Source
	for _, s := range from.sources() {
		if err := l.load(&s); err != nil {
			return nil, nil, nil, err
		}
		loaded = append(loaded, s.Source)
	}
	return loaded, l.standard, l.idle, nil
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

// partition returns the cache partition of a source that reads documents with these credentials over
// this transport. Different sources have different partitions, so that failures and validation
// results of one do not affect the other. The same source has the same partition after a reload
// and in several sites. The trusted hosts are part of the key, because they decide which requests
// carry discovery credentials.
func partition(s *catalog.Source, credentials, transport json.RawMessage) (string, error) {
	d := lifetime.NewDigest(strconv.Itoa(int(s.Kind)), s.Namespace, s.URL.String(), string(transport))
	if len(credentials) == 0 && !s.Certificate {
		return d.String(), nil
	}
	d.Add(strconv.Itoa(len(s.Trust)))
	d.Add(slices.Sorted(slices.Values(s.Trust))...)
	texts, err := resolvedTexts(credentials)
	if err != nil {
		return "", err
	}
	d.Add(texts...)
	return d.String(), nil
}

// AddPorts adds the ports of all URLs in the configuration of the sources, credentials included:
// they may name a token endpoint.
func (from *Sources) AddPorts(ports map[uint16]bool) error {
	for _, s := range from.sources() {
		urls := []string{s.URL.String()}
		for _, host := range s.Trust {
			urls = append(urls, "https://"+host)
		}
		for _, raw := range []json.RawMessage{s.credentials, s.discovery} {
			texts, err := resolvedTexts(raw)
			if err != nil {
				return err
			}
			urls = append(urls, texts...)
		}
		for _, text := range urls {
			AddPort(ports, text)
		}
	}
	return nil
}

// AddPort adds the port that is written in a URL, if there is one.
func AddPort(ports map[uint16]bool, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		ports[uint16(port)] = true
	}
}
