// Package credentials has the Caddy modules that authenticate requests to providers, in the
// namespace http.skill_bridge.credentials:
//
//   - api_key sends a key in a header,
//   - oauth2 obtains access tokens and sends them as bearer tokens,
//   - oauth2_user sends the tokens that users have granted,
//   - headers sends fixed headers,
//   - hmac signs each request.
//
// # Writing a credentials module
//
// A credentials module is a Caddy module of this namespace that implements
// [credential.Credentials], as in the example. A Caddy built with it accepts its name after the
// options credentials and discovery_credentials, and in JSON as the member type.
//
// The bridge calls Authenticate only for requests that may carry a secret. A module sends its own
// requests, for example to a token endpoint, through [credential.Authentication.Transport]. If
// their URL is from a document, the module calls [credential.Authentication.MaySend] first. It
// treats all data of providers and documents as untrusted.
//
// A module that can replace credentials after a provider has refused them also implements
// [credential.Renewer].
//
// Provision sends nothing and writes nothing, because caddy validate calls it. It resolves Caddy's
// placeholders, but does not store their values in exported fields, errors or logs. After a reload,
// Caddy calls Cleanup while requests still use the module, so its methods must work after Cleanup.
package credentials
