// Package callbacks sends the ends of kept runs to URLs that their callers have chosen, at least once, signed as Standard Webhooks
// (https://www.standardwebhooks.com).
//
// [Callbacks] has the options of one configuration. It checks the URL and the token of a call, and makes the notes that the record of
// the run has. A [Deliverer] is kept over reloads, with the runs. It sends a request when a run has ended, with the newest
// configuration that owns the run, and again with growing pauses until the receiver answers 2xx. It gives up after the eighth
// request, after the answer 410, or when the record of the run expires. Owners take turns, and the requests for the runs of an owner to one
// host have a [webhook.Rate].
//
// # Restarts
//
// An index in the storage has a record for each run with a call-back, with the instance that sends it; it is written before the run is
// submitted, again after each request that failed, with the time of the next one, and when the call-back was delivered or given up. So call-backs
// can give way to others in memory: the index is read again for them. Other instances, and the next process, read it, follow the runs of
// instances that have ended, and send their call-backs. So a receiver may get a call-back twice: with the same webhook-id.
//
// # Signatures
//
// A request has one signature for the caller's token, if the call has one, and one for each secret of the operator. So a secret can be
// replaced while receivers still know only the older one. The token is stored encrypted.
package callbacks
