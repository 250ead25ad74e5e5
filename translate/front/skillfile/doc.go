// Package skillfile renders SKILL.md, the text that explains a skill to a language model, and makes texts of others safe as Markdown.
package skillfile
