// Package skillsite reads what a site publishes in the Agent Skills format: its index (Agent Skills Discovery 0.2.0), and the artifacts that
// the index lists, each a SKILL.md or an archive of files. It checks the digest of an artifact, unpacks archives within limits, and makes
// index entries and descriptors of the Skill Sharing Protocol of them, so that the bridge lists and describes the skills like all others. It
// makes no requests.
package skillsite
