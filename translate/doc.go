// Package translate is the bridge itself, free of Caddy and of any agent's
// protocol: a [Call] goes in, a [run.Run] comes out.
//
// A front (such as package skillsprotocol) turns the words of its protocol into
// calls and outcomes back into its answers. Package skillsharing knows how to
// read a provider's documents and how to invoke, follow and judge a run. What
// lies between is here: which skill a name means, in which order things happen,
// how long they may take, and what a failure means for the agent.
package translate
