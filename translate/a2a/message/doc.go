// Package message reads messages of A2A: it finds the names of skills, and the inputs for a skill, in their data, texts, files
// and metadata. It also makes the texts and parts that tasks are answered with.
package message
