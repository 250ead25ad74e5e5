// Package skillsprotocol is the front for the Skills Protocol, which has JSON-RPC
// methods for listing, describing and executing skills.
//
// The method ServeRPC of a [Front] is a [jsonrpc.Handler]. It turns the params of a method into a
// [translate.Call], calls a [Bridge], and turns the [run.Run] into an answer. The bridge finds
// the skill, executes it and classifies failures. This package maps the outcome to
// members and codes of the Skills Protocol.
//
// # Methods
//
//   - cancel_run ends the following of a run
//   - list_runs lists the runs of the caller's calls with idempotency keys
//   - list_skills, describe_skill and read_skill_file describe the skills
//   - load_skills_protocol_guide returns a guide for agents
//   - execute_skill runs a skill, and get_run follows a run. The run of a call with an idempotency key is in package ledger
//   - run_code, create_blob and read_blob have no counterpart in the Skill
//     Sharing Protocol and are answered "Method not found"
//
// # Errors
//
// The Skills Protocol has two levels of errors (JSON-RPC Conventions, "Two-level
// error model"). A run that failed is a result with the status "failed". If no run was
// accepted, or its end could not be learned, the answer is a JSON-RPC error. If the
// deadline passes after a run was accepted, the answer is a failed result, because the
// run exists. Every error says who found it (source), whether the skill may have run
// (executed) and what to do next (next).
//
// # Raw values
//
// Arguments, outputs, and a provider's details and retry suggestions are copied
// byte for byte, so that numbers keep their digits.
package skillsprotocol
