package front

import "github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"

// LimitNames returns the names of the options that limit requests, which are the same for all fronts.
func LimitNames() jsonrpc.LimitNames {
	return jsonrpc.LimitNames{
		Batch:   jsonrpc.LimitName{Name: "max_batch"},
		Request: jsonrpc.LimitName{Name: "max_request_size"},
		Depth:   jsonrpc.LimitName{Block: "limits", Name: "depth"},
		Answer:  jsonrpc.LimitName{Block: "limits", Name: "answer_size"},
		Answers: jsonrpc.LimitName{Block: "limits", Name: "answers"},
	}
}
