// Package conformance invokes a skill, and holds the answers of its provider to the Skill Sharing Protocol.
package conformance
