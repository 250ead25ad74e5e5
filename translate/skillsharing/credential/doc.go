// Package credential protects the secrets of a source of skills: [Credentials] is the interface that
// authenticates requests, [AllowedHosts] says which hosts may receive secrets, and [Scrub] removes them from texts. Package module/credentials implements the interface.
package credential
