//go:build !unix

package postgrestest

// start starts no server: the script that ends it with the test binary needs a shell.
func start() (*cluster, error) { return nil, ErrMissing }
