// Package safetext makes text of other parties safe to show: it bounds the length, and takes out control characters and what
// can't be seen but changes how other characters look, such as the direction of text. Every room that shows such text uses it:
// answers, the log, the page and the command line.
package safetext
