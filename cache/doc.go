// Package cache keeps documents that were fetched with GET over HTTP, in their
// parsed form, for as long as RFC 9111 lets a shared cache keep them.
//
// # Use
//
// The caller says how a document is fetched and how it is parsed; the cache
// decides when each of the two happens:
//
//	c, err := cache.New(cache.Config{
//		MaxSize:      64 << 20,
//		TTL:          5 * time.Minute,
//		MaxTTL:       24 * time.Hour,
//		StaleIfError: time.Hour,
//		NegativeTTL:  5 * time.Second,
//	})
//	…
//	defer c.Close()
//
//	doc, err := c.Get(ctx, cache.Request{
//		URL:     "https://provider.example/index.json",
//		Header:  http.Header{"Accept": {"application/json"}},
//		Timeout: 10 * time.Second,
//		Fetch:   fetch, // one GET, the body read and bounded
//		Parse:   parse, // judges the body, returns what is worth keeping
//	})
//	…
//	index := doc.Value.(*Index)
//
// A document is known by its URL and its partition. Answers that depend on
// something other than the URL and the header fields sent, such as a
// credential, belong in partitions of their own: documents of different
// partitions never meet. Requests for the same URL and partition have to parse
// alike, since the first of them parses for all.
//
// Documents and their values are shared by all callers. Treat both
// as immutable.
//
// # Freshness
//
// A document is fresh for its s-maxage, else its max-age, else the distance
// from Date to Expires, else [Config.TTL]; less its age on arrival; and never
// longer than [Config.MaxTTL]. Freshness stated in a way that cannot be
// understood counts as none at all, so the document is asked for again (RFC
// 9111, section 4.2). While a document is fresh it is handed out without
// asking the origin.
//
// Afterwards the origin is asked with If-None-Match and If-Modified-Since if
// it gave an ETag or a date. A 304 renews the document, and so does a 200 with
// the same bytes from the same final URL: a version of a document is parsed
// once. To make this possible, documents stay in memory for another MaxTTL
// after their last possible use, room permitting.
//
//   - no-store and private documents are not kept. Callers that ask while such
//     a document is being fetched still share the one answer. A partition belongs
//     to a credential, not to a user, so private applies to every partition.
//   - no-cache documents, and those with "Vary: *", are kept but never handed
//     out without asking.
//   - no-store gives way to must-understand, as RFC 9111, section 5.2.2.3 has it.
//   - The fields that private="…" names are not kept; no-cache="…" needs nothing,
//     since header fields are never handed out of the cache.
//   - Of a document that varies, the last variant fetched is kept.
//   - The rule on Authorization (RFC 9111, section 3.5) is met by partitions.
//
// # Failures
//
// A failure is whatever does not end in a valid document: an error of Fetch, a
// status other than 200 (also a 304 to a request without a condition), an error
// of Parse. It is remembered for [Config.NegativeTTL], and returned again
// meanwhile; a [*FailureError] says until when. This protects the origin and is no
// copy of its answer, so no-store does not prevent it. Errors unwrap to what caused
// them:
// [*StatusError] for a status, and whatever Fetch or Parse returned.
//
// When the origin is in trouble (an error of Fetch, a 5xx or a 429), a document
// that was fresh until at most [Config.StaleIfError] ago is handed out instead,
// marked [Stale] and with the reason in [Document.Err]. stale-if-error of the
// origin (RFC 5861) lowers this time; no-cache, must-revalidate,
// proxy-revalidate and s-maxage forbid it, as RFC 9111, section 4.2.4 says. Any
// other failure is a verdict on the document: it is dropped. An error of Fetch
// is one if it says so itself, as [Request] describes. An [*OwnError] is no failure
// to get the document, but a refusal to one [Request.Owner]: others do not get it.
//
// # Flights
//
// However many ask for a document at once, one fetch serves them all. It does
// not end with the context of the caller that happened to come first, but has
// that context's values, and its time is bounded by [Request.Timeout]: a Fetch
// that goes on nevertheless is left behind. A caller whose context ends leaves
// at once. Flights of one group can be bounded ([Request.Group]): what exceeds the
// bound waits, and a flight without a caller gives way. A panic of Fetch or Parse becomes a [*PanicError] for everyone
// waiting.
package cache
