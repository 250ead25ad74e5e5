// Package publish makes the operations of an HTTP API skills of the Skill Sharing Protocol. It reads OpenAPI documents, translates operations to
// descriptors, invocations to requests to the API, and answers of the API to results. It serves nothing itself.
package publish
