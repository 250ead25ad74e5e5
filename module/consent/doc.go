// Package consent serves the pages on which users connect accounts of their own at providers (OAuth 2.0 authorization codes with PKCE), for
// credentials of the kind oauth2_user. Package bridge serves them beside the endpoints.
//
// A link has nothing of a user: the user who opens it connects an account of their own. A flow is only in the cookie of the browser that began it.
// What Caddy does not know, such as when an account was connected, is in the grants of package credentials.
package consent
