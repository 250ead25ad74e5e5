// Package translate executes calls of skills: a [Call] goes in, a [run.Run] comes out. It knows
// neither Caddy nor the protocol of any agent.
//
// A front, such as package skillsprotocol, turns requests of its protocol into calls, and runs into
// its answers. Package catalog finds the skill that a name means. Package skillsharing reads the
// documents of providers, invokes skills and follows runs. This package decides in which order that
// happens, within which limits and timeouts, and what a failure means for the agent.
package translate
