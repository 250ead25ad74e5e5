// Package exchange sends one HTTP request to a provider and judges the answer: it bounds the body, keeps requests from hosts
// that are in trouble, and says what a network error or an answer means. Packages discovery and skillsharing use it.
package exchange
