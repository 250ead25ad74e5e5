// Package front has what the protocols of agents have in common: the details of failures by the
// Skill Sharing Protocol, and the writer of JSON answers.
package front
