// Package loads reads tasks that are only in the storage: an ended one once for all requests that have it at a time, and large ones a few
// at a time, after memory was reserved for them.
package loads
