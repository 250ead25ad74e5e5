package front

// GetRun is the name of the tool with which a model follows a run that has not ended yet. No skill has it as its tool name.
const GetRun = "get_run"

// The definition of the tool [GetRun], in all fronts: its description for models, and its JSON Schema.
const (
	GetRunDescription = "Answers as the call of a tool would have that was still running: with its output, its failure, or that it is still running. " +
		"Call it with the run_token of that answer."
	GetRunSchema = `{"type":"object","properties":{"run_token":{"type":"string","description":"The run_token, exactly as it was given."},` +
		`"wait_ms":{"type":"integer","minimum":0,"description":"How long to wait for the end of the run, in milliseconds."}},"required":["run_token"]}`
)
