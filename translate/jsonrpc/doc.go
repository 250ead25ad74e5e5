// Package jsonrpc serves JSON-RPC 2.0 over HTTP: the envelope, batches,
// notifications, ids and the error object. It defines no methods.
//
// A [Server] is an [http.Handler]. It checks the HTTP request, reads the body
// up to a limit, decodes it in one pass, calls a [Handler] for each
// request and writes the answers:
//
//	server := &jsonrpc.Server{
//		Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
//			if req.Method != "ping" {
//				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
//			}
//			return jsontext.Value(`"pong"`), nil
//		}),
//		Profile: jsonrpc.Profile{MaxBatch: 50, NullID: true},
//	}
//
// Protocols that use JSON-RPC differ in whether they have batches and null ids, in the
// HTTP status of errors, in their messages and their data. A [Profile] has these differences.
//
// # HTTP
//
// An answer has one of these statuses, unless the profile or the error has another one:
//
//   - 200: a result, an error unless listed below, or the answers to a batch
//   - 204: a notification or a batch of notifications
//   - 400: the body is not one JSON text (-32700)
//   - 405: the method is not POST
//   - 413: the body is larger than allowed (-32600)
//   - 415: the Content-Type is not JSON in UTF-8, or there is a Content-Encoding
//   - 500: the handler panicked (-32603)
//
// # Batches
//
// All elements of a batch are served concurrently; [Profile.MaxBatch] bounds their
// number. Their answers are written in order. A long answer is written while elements
// are still being served. [Server.MaxAnswerSize] bounds the memory for answers that
// wait for an earlier one, and [Server.WriteTimeout] disconnects clients that do not
// read their answer.
//
// # Streams
//
// A method can answer with server-sent events ([Request.Stream]), each of which has one answer to the
// request. The elements of a batch and notifications can't. A method whose stream is open for
// long should call [Request.Release], so that no buffer is kept while it waits.
//
// # Raw values
//
// Ids, params and results are copied byte for byte, except for line ends in events: an answer has an id such as
// 12345678901234567890123 or "\u0041" exactly as it was sent. The syntax of params is
// checked, but not whether names in them are unique; that is up to the handler. Decoded
// values are slices of the body, whose buffer is reused once the answer is written. So a
// handler must not keep Params, ID or parts of them after it has returned. A result may
// contain them.
package jsonrpc
