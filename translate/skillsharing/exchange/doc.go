// Package exchange sends one HTTP request to a provider and interprets the answer: it limits the body, sends nothing to hosts
// that keep failing, and turns network errors and answers into failures. Packages discovery and skillsharing use it.
package exchange
