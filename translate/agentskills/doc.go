// Package agentskills serves the skills of a bridge in the Agent Skills format: for each skill a SKILL.md that tells how to call the skill with one
// HTTP request, and the index of Agent Skills Discovery 0.2.0, so that installers of that format give coding agents the skills.
//
// # Digests and bytes
//
// The index has the SHA-256 digest of each file, and the URL of each file contains the first characters of the digest. An installer reads the
// index, and then the files, one after the other. If a skill changes meanwhile, its URL has no file any more, so that no installer gets bytes
// with another digest.
//
// # Cost
//
// A [Site] keeps the text of each skill, and renders it again when the descriptor changes. A text is independent of callers, and, apart
// from the public URL, of requests. The client may choose that URL, by its Host: a request for a file takes the digest of that file, and
// only one that reads the index takes those of all, for one at a time and as long as its client waits. What a caller may see is read again after [recheck], or after 20 times the time that it took, by at most one reading
// at a time for each principal. A reading takes places of the bridge's limits, as lists of other fronts do, and reads the descriptors that
// the cache does not have. A request waits for it [patience], or [firstPatience] if there is no earlier result.
// A site has at most [maxSkills] skills and [maxSize] bytes of texts, [maxIndexes] made indexes of at most [maxKept] bytes,
// and remembers the lists of [maxViews] principals.
package agentskills
