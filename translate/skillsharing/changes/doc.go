// Package changes notices when a provider changes what a skill asks for: its name and description, the hosts of its endpoint, its inputs, or
// how it authenticates. A [Guard] reports such a change, or holds it: the descriptor that was first seen is used until an operator approves
// another one. Other changes, such as those of versions, outputs, timeouts and paths of URLs, and the order of members, do not count.
package changes
