package consent_test

import _ "github.com/skill-bridge/caddy-skill-bridge/module" // the tests run Caddy with the whole module
