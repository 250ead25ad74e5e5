// Package credential holds what concerns the secrets of a source of skills: the interface that credentials implement, the hosts
// that may receive them, and how they are removed from what is shown. Package module/credentials implements the interface.
package credential
