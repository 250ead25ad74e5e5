// Package jsonrpc serves JSON-RPC 2.0 over HTTP: the envelope, batches,
// notifications, ids and the error object. It knows no method.
//
// A [Server] is an [http.Handler]. It judges the HTTP request, reads the body
// under a limit, decodes it in one pass with [Decode], hands each request to a
// [Handler] and writes the answers:
//
//	server := &jsonrpc.Server{
//		Handler: jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
//			if req.Method != "ping" {
//				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
//			}
//			return jsontext.Value(`"pong"`), nil
//		}),
//		Profile: jsonrpc.Profile{MaxBatch: 50, NullID: true},
//	}
//
// Several protocols ride on JSON-RPC and differ in whether batches and null ids
// exist, in the HTTP status of an error and in what stands in an error's data:
// that is what a [Profile] says.
//
// # HTTP
//
//   - 200: a result or an error of well-formed JSON, and any batch
//   - 204: a notification, or a batch of nothing else
//   - 400: the body is not one JSON text (-32700)
//   - 405: the method is not POST
//   - 413: the body is larger than allowed (-32600)
//   - 415: the body is not declared as plain JSON
//   - 500: the handler panicked (-32603)
//
// # Batches
//
// All elements of a batch start at once: [Profile.MaxBatch] bounds how many these
// are. Their answers are written in order, and as they come where there is much to
// write: what is kept for those that have to wait is bounded by
// [Server.MaxAnswerSize], and a client that does not read its answer is left after
// [Server.WriteTimeout].
//
// # Raw values
//
// Ids, params and results travel as the bytes that were sent: an id such as
// 12345678901234567890123 or "\u0041" is answered byte for byte, and params are
// checked for syntax only, so that duplicate names inside them are the
// handler's to judge. Decoded values are slices of the body, and the buffer
// behind it is used again once the answer is written. A handler must therefore
// not keep Params or ID, nor parts of them, after it returned; a result may
// contain them.
package jsonrpc
