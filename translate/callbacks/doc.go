// Package callbacks has what is special of call-backs: the end of a run of the ledger, which is sent to a URL that its caller has chosen, signed as Standard
// Webhooks (https://www.standardwebhooks.com). Package delivery sends them.
//
// [Sender] has the options of one configuration. Where a call-back goes is in the notes of the run's entry and in its delivery. A call-back has the id of the
// entry, so that a receiver recognizes one that it gets twice. A run whose end can't be learned, because the instance that submitted it is gone, has a
// call-back that says so.
//
// # Signatures
//
// A request has one signature for the caller's token, if the call has one, and one for each secret of the operator. So a secret can be
// replaced while receivers still know only the older one. The token is stored encrypted.
package callbacks
