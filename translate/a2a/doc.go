// Package a2a is the front for agents that speak A2A (Agent2Agent) over JSON-RPC: versions 1.0, 0.3 and 0.1. Each
// skill of the bridge is a skill of one A2A agent, and each execution is a task.
//
// A message is turned into a call in three steps: the version and the method ([Front.ServeRPC]), the skill that it means
// (selection), and the inputs of that skill (gathering). A task is made directly before the provider is invoked, and its run
// is followed in the background, also after the request has ended. Package message reads
// messages, package task keeps the tasks, package wire has their forms in each version, and package card the cards.
package a2a
