// Package credentials holds the Caddy modules that authenticate the bridge towards
// providers, in the namespace http.skill_bridge.credentials:
//
//   - api_key sends a key in a header,
//   - oauth2 obtains access tokens and sends them as bearer tokens,
//   - headers sends fixed headers,
//   - hmac signs each request.
//
// # Writing another kind
//
// Another kind of credentials is a Caddy module of the same namespace that implements
// [credential.Credentials], as the example shows. A Caddy built with it accepts its name
// after the options credentials and discovery_credentials, and in JSON as the member type.
//
// Before the bridge calls Authenticate, it has judged whether the request may carry a
// secret. A module sends its own requests, for example to a token endpoint, through
// [credential.Authentication.Transport]. If a document named their URL, it first asks
// [credential.Authentication.MaySend]. It treats everything that a provider or a document
// says as untrusted.
//
// Credentials that can be renewed when a provider refuses them also implement
// [credential.Renewer].
//
// Provision sends nothing and writes nothing, since caddy validate calls it. It resolves
// Caddy's placeholders; the values stay out of exported fields, errors and logs. When a
// configuration is replaced, Caddy calls Cleanup while requests still use the module, so
// its methods work afterwards, too.
package credentials
