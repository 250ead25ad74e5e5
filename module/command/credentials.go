package command

import (
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/spf13/pflag"
)

// The flags that say which credentials there are.
const (
	keyFlag    = "--api-key-env"
	clientFlag = "--oauth-client-id"
)

// credentialFlags are the flags about the credentials for a provider. No flag has a secret: other users of a machine can see the command line.
type credentialFlags struct {
	keyEnv, keyHeader, keyPrefix  string
	clientID, secretEnv, tokenURL string
	authStyle                     string
	scopes                        []string
}

// addTo adds the flags to a set.
func (f *credentialFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&f.keyEnv, "api-key-env", "", "Environment variable that contains the API key")
	set.StringVar(&f.keyHeader, "api-key-header", "", "Header for the key (default: the descriptor's, else X-API-Key)")
	set.StringVar(&f.keyPrefix, "api-key-prefix", "", "What is before the key in the header, such as \"Bearer \"")
	set.StringVar(&f.clientID, "oauth-client-id", "", "OAuth client with which to get tokens (client credentials)")
	set.StringVar(&f.secretEnv, "oauth-secret-env", "", "Environment variable that contains the client's secret")
	set.StringVar(&f.tokenURL, "oauth-token-url", "", "Token endpoint (default: the descriptor's)")
	set.StringVar(&f.authStyle, "oauth-auth-style", "", "How the client authenticates: header (HTTP Basic, the default) or params (in the body)")
	set.StringSliceVar(&f.scopes, "oauth-scopes", nil, "Scopes of the tokens (default: the token endpoint decides)")
}

// kind returns [keyFlag] or [clientFlag]; empty: there are no credentials.
func (f *credentialFlags) kind() string {
	switch {
	case f.keyEnv != "":
		return keyFlag
	case f.clientID != "":
		return clientFlag
	}
	return ""
}

// module returns the configuration of the module for the credentials; nil: there are none. It has the secret as a placeholder, so that no
// log shows it. forDocuments says that requests for documents have them, too.
func (f *credentialFlags) module(forDocuments bool) (json.RawMessage, error) {
	ofClient := f.secretEnv != "" || f.tokenURL != "" || f.authStyle != "" || len(f.scopes) > 0
	switch {
	case f.keyEnv == "" && f.keyHeader != "":
		return nil, errors.New("--api-key-header needs " + keyFlag)
	case f.keyEnv == "" && f.keyPrefix != "":
		return nil, errors.New("--api-key-prefix needs " + keyFlag)
	case f.keyEnv != "" && (f.clientID != "" || ofClient):
		return nil, errors.New(keyFlag + " and " + clientFlag + " exclude each other: write a Caddyfile for several credentials")
	case f.clientID == "" && ofClient:
		return nil, errors.New("--oauth-secret-env, --oauth-token-url, --oauth-auth-style and --oauth-scopes need " + clientFlag)
	case f.keyEnv != "":
		_, err := fromEnvironment(keyFlag, f.keyEnv)
		return caddyconfig.JSON(map[string]string{"type": "api_key", "key": "{env." + f.keyEnv + "}", "header": f.keyHeader, "prefix": f.keyPrefix}, nil), err
	case f.clientID == "":
		return nil, nil
	case f.secretEnv == "":
		return nil, errors.New(clientFlag + " needs --oauth-secret-env, which names the environment variable with the client's secret")
	case forDocuments && f.tokenURL == "":
		return nil, errors.New("with " + clientFlag + ", reading documents needs --oauth-token-url: they are read before a descriptor can name a token endpoint")
	}
	_, err := fromEnvironment("--oauth-secret-env", f.secretEnv)
	return caddyconfig.JSON(map[string]any{
		"type": "oauth2", "client_id": f.clientID, "client_secret": "{env." + f.secretEnv + "}", "token_url": f.tokenURL, "scopes": f.scopes, "auth_style": f.authStyle,
	}, nil), err
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fromEnvironment returns the value of the environment variable that a flag names, without white space around it.
func fromEnvironment(flag, name string) (string, error) {
	if !envName.MatchString(name) {
		return "", errors.New(flag + " takes the name of an environment variable, not the secret itself")
	}
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		return "", fmt.Errorf("%s: the environment variable %s is empty or not set", flag, name)
	}
	return value, nil
}
