// Package message finds in messages of A2A what they are for: the names of skills, and inputs for a skill, in data, texts
// and files.
package message
