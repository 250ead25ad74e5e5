package skillbridge

import (
	"embed"

	"github.com/skill-bridge/caddy-skill-bridge/module/setup"
)

// sources are the files with the types of the configuration. The comments of their fields describe them in `caddy skill-bridge schema`, too.
//
//go:embed bridge/access.go bridge/bounds.go bridge/cache.go bridge/caller.go bridge/callers.go bridge/handler.go bridge/network.go bridge/quota.go
//go:embed bridge/timing.go browse/browse.go callers/issuer.go consent/config.go credentials/accounts.go credentials/api_key.go credentials/flow.go
//go:embed credentials/grants.go credentials/headers.go credentials/hmac.go credentials/oauth2.go credentials/oauth2_user.go fronts/a2a.go fronts/agentskills.go
//go:embed fronts/mcp.go fronts/mounts.go fronts/webhooks.go keeping/options.go keeping/stores.go publish/publish.go
//go:embed sources/credentials.go sources/provider.go sources/site.go sources/sources.go
var sources embed.FS

func init() { setup.Sources = sources }
