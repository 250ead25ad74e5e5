// Package safetext makes text of other parties safe to show in answers, logs, web pages and
// terminals: it bounds the length and replaces control characters and invisible characters, such
// as those that change the direction of text.
package safetext
