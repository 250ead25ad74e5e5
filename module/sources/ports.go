package sources

import (
	"encoding/json" // for Caddy's raw modules
	"net/url"
	"strconv"
)

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
			if u, err := url.Parse(text); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
				addPort(ports, u)
			}
		}
	}
	return nil
}

// addPort adds the port that is written in a URL, if there is one.
func addPort(ports map[uint16]bool, u *url.URL) {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		ports[uint16(port)] = true
	}
}
