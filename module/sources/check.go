package sources

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Check reports to c the first fault that can be found without loading modules. Plain HTTP needs
// allowHTTP; credentials need allowCredentials, unless their source requires a principal.
func (from *Sources) Check(c *options.Checker, allowHTTP, allowCredentials bool) {
	checkNull(c, "providers", "provider", from.Providers)
	checkNull(c, "skills", "skill", from.Skills)
	checkNull(c, "registries", "registry", from.Registries)
	checkNull(c, "sites", "site", from.Sites)
	if c.Fault != nil {
		return
	}
	names := make(map[string]string) // of skills and aliases, with their owners
	namespaces := make(map[string]string)
	for _, s := range from.sources() {
		c.Check(s.path+s.field, cmp.Or(s.err, checkScheme(s.URL, allowHTTP)))
		if owner := s.Kind.String() + " " + s.name; s.Kind == catalog.SkillSource {
			c.Check(s.path+".name", cmp.Or(options.CheckName("skill", s.name), claim(names, "name", s.name, "skill"), claim(namespaces, "namespace", s.name, owner)))
		} else {
			checkNamespace(c, &s, owner, namespaces)
		}
		for i, a := range s.Aliases {
			at := options.Element(s.path+".aliases", i)
			c.Check(at+".name", cmp.Or(options.CheckName("alias", a.Name), claim(names, "name", a.Name, "alias")))
			if a.SkillID == "" {
				c.Check(at+".skill_id", fmt.Errorf("alias %q has an empty skill id", a.Name))
			}
		}
		for i, host := range s.Trust {
			c.Check(options.Element(s.path+".trust", i), checkHost(host))
		}
		checkCapabilityTypes(c, s.path+".capability_types", s.CapabilityTypes)
		if !slices.Contains([]string{"", "warn", onChangeHold, onChangeOff}, s.onChange) {
			c.Check(s.path+".on_change", fmt.Errorf("on_change %q is not one of warn, hold, off", s.onChange))
		}
		c.Check(s.path+".transport", network.CheckTransport(s.transport))
		c.Check(s.path+".credentials", checkSecrets(s.credentials, allowCredentials || s.RequirePrincipal))
		c.Check(s.path+".discovery_credentials", cmp.Or(checkSecrets(s.discovery, allowCredentials || s.RequirePrincipal), checkTokenURL(s.discovery)))
	}
}

// checkNull checks that no element of a list is null.
func checkNull[T any](c *options.Checker, path, what string, list []*T) {
	if i := slices.Index(list, nil); i >= 0 {
		c.Check(options.Element(path, i), errors.New(what+" is null"))
	}
}

// checkScheme checks that a URL has a scheme that the configuration allows.
func checkScheme(u *url.URL, allowHTTP bool) error {
	if u != nil && u.Scheme == "http" && !allowHTTP {
		return fmt.Errorf("%s does not use TLS; write https://, or add allow_http", u)
	}
	return nil
}

func checkCapabilityTypes(c *options.Checker, path string, types []document.CapabilityType) {
	for i, t := range types {
		at := options.Element(path, i)
		if !slices.Contains(document.CapabilityTypes[:], t) {
			c.Check(at, fmt.Errorf("capability type %q is none of plugin, api, knowledge and task", t))
		}
		if slices.Contains(types[:i], t) {
			c.Check(at, fmt.Errorf("capability type %q is given twice", t))
		}
	}
}

// checkNamespace checks the namespace of a source. The default is its host name.
func checkNamespace(c *options.Checker, s *source, owner string, namespaces map[string]string) {
	err := checkNamespaceText(s.Namespace)
	if err != nil && s.URL != nil && s.Namespace == namespaceOf("", s.URL) {
		err = fmt.Errorf("%s needs a namespace option, since its host name is not a valid namespace: %w", owner, err)
	}
	c.Check(s.path+".namespace", cmp.Or(err, claim(namespaces, "namespace", s.Namespace, owner)))
}

func checkNamespaceText(namespace string) error {
	if len(namespace) > options.MaxNameSize {
		return fmt.Errorf("namespace %.20q… is longer than %d bytes", namespace, options.MaxNameSize)
	}
	for _, r := range namespace {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r) {
			return fmt.Errorf("namespace %q has the character %q; letters, digits, '.', '-' and '_' are allowed", namespace, r)
		}
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

// Values of on_change; the third is warn.
const (
	onChangeHold = "hold"
	onChangeOff  = "off"
)

// Guard gives the loaded sources their guards, which report changed descriptors. Without a database, no change is held.
func (from *Sources) Guard(db *store.DB, loaded []catalog.Source, report func(source string, c changes.Change)) {
	for i, s := range from.sources() {
		to := &loaded[i]
		config := changes.Config{Single: to.Kind == catalog.SkillSource, Report: func(c changes.Change) { report(to.Namespace, c) }}
		switch {
		case s.onChange == onChangeOff, to.Kind == catalog.SiteSource:
			continue
		case s.onChange == onChangeHold && db != nil:
			config.Store = newDescriptors(db.Things(), fmt.Sprintf("%d\n%s\n%s", to.Kind, to.Namespace, to.URL))
		}
		to.Guard = changes.New(config)
	}
}
