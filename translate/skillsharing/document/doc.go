// Package document has the documents of the Skill Sharing Protocol 1.0.0: index, registry's answer, descriptor and
// InvocationResponse. It reads them within limits, validates them by the protocol's schema and rules, and writes them. It
// makes no requests.
package document
