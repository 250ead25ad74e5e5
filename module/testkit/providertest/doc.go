// Package providertest is for tests: a provider of the Skill Sharing Protocol with the answers that a test sets, its documents,
// and the configuration of a bridge to it.
package providertest
