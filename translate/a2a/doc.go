// Package a2a is the front for agents that speak A2A (Agent2Agent) over JSON-RPC: versions 1.0, 0.3 and 0.1. Each
// skill of the bridge is a skill of one A2A agent, and each execution is a task.
//
// [Front.ServeRPC] reads the version and the method of a request. A message (send.go) becomes a call in three steps: what it names (find.go finds its
// task and its skill), the collection of its inputs and the claim, directly before the provider is invoked (submission.go), and its answer
// (answer.go). Its run may outlive its request.
//
// Package message reads messages, package task has tasks as views of entries of the ledger and changes them by the states of their runs, package wire encodes
// and decodes each version, and package card makes the agent cards.
package a2a
