// Package keptcalls executes calls whose runs a [ledger.Ledger] keeps: those with an idempotency key, which are executed once, and those whose end is
// told to a receiver. The submission goes on when its caller leaves.
package keptcalls
