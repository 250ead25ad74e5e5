// Package skillsprotocol is the front that speaks the Skills Protocol: JSON-RPC
// methods with which an agent lists, reads about and executes skills.
//
// A [Front] is a [jsonrpc.Handler]. It turns the params of a method into a
// [translate.Call], gives it to a [Bridge], and turns the [run.Run]
// into an answer. It decides nothing about skills: which one a name means, how
// long it may run and what a failure means is the bridge's business; which words
// and codes of the Skills Protocol say so is this package's.
//
// # Methods
//
//   - list_skills, describe_skill and read_skill_file tell what there is
//   - load_skills_protocol_guide explains all this to an agent
//   - execute_skill runs a skill
//   - run_code, create_blob and read_blob have no counterpart in the Skill
//     Sharing Protocol and are answered "Method not found"
//
// # Errors
//
// The Skills Protocol knows two levels (JSON-RPC Conventions, "Two-level error
// model"): a run that ended badly is a result with the status "failed"; whatever
// kept a run from existing, or its end from being known, is an error of the
// call. A deadline that passes after a run was accepted makes a failed result
// too, because the run exists. Every error tells whose finding it is (source),
// whether the skill may have run (executed) and what to do (next).
//
// # Raw values
//
// Arguments, outputs, and a provider's details and retry suggestions are copied
// as they were sent: a number keeps its digits.
package skillsprotocol
