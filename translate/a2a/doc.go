// Package a2a is the front for agents that speak A2A (Agent2Agent) over JSON-RPC: versions 1.0, 0.3 and 0.1. Each
// skill of the bridge is a skill of one A2A agent, and each execution is a task.
//
// [Front.ServeRPC] reads the version and the method of a request. A message becomes a call in two steps: the selection of
// the skill, and the collection of its inputs. A task is made directly before the provider is invoked, and its run
// is followed in the background, also after the request has ended. Package message reads messages, package task has the data
// of tasks, package tasks keeps them, package runs follows their runs, package wire encodes and decodes each version, package push calls
// webhooks, and package card makes the agent cards.
package a2a
