// Package deployment has tests of the files in caddyfile-examples/deploy: the types of Kubernetes and of the Prometheus Operator take what kustomize makes of
// those for Kubernetes, without a field that they do not have, and the loader of Docker Compose those for containers.
//
// This is a module of its own, so that the bridge's go.mod does not require these. Run the tests with
//
//	go test -C module/testkit/clients/deployment ./...
package deployment
