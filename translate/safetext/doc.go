// Package safetext makes text of other parties safe to show in answers, logs, the page and the command line. It bounds the
// length, and removes control characters and invisible ones, such as those that change the direction of text.
package safetext
