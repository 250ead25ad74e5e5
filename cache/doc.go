// Package cache keeps documents that were fetched with GET over HTTP, in their
// parsed form, for as long as RFC 9111 lets a shared cache keep them. The functions
// that fetch and parse a document come with each [Request].
//
// # Freshness
//
// A document is fresh for its s-maxage, else its max-age, else the time from
// Date to Expires, else [Config.TTL]; less its age on arrival; and never longer
// than [Config.MaxTTL]. A malformed lifetime is zero (RFC 9111, section 4.2).
//
// Afterwards the origin is asked with If-None-Match and If-Modified-Since if
// it gave an ETag or a date. A 304 renews the document, and so does a 200 with
// the same bytes from the same final URL: a version of a document is parsed
// once. For this, documents stay in memory for another MaxTTL after their last
// possible use, as long as there is room.
//
//   - no-store (without must-understand) and private documents are not kept. A
//     partition belongs to a credential, not to a user, so private applies to every
//     partition. Callers that ask during the fetch still share the answer.
//   - no-cache documents, and those with "Vary: *", are kept, and revalidated
//     before each use. Other values of Vary need nothing: the requests of a
//     partition have the same header.
//   - The fields that private="…" names are not kept. no-cache="…" needs nothing,
//     since the cache returns no header fields of kept documents.
//   - The rule on Authorization (RFC 9111, section 3.5) is met by partitions.
//
// # Failures
//
// A failure is an error of Fetch, a status other than 200 (also a 304 to a request
// without a condition), or an error of Parse. It is remembered and returned again for
// [Config.NegativeTTL]. This protects the origin and is no copy of its answer, so
// no-store does not prevent it.
//
// When the origin is in trouble (an error of Fetch or Parse, a 5xx or a 429), a document
// that was fresh until at most [Config.StaleIfError] ago is returned instead, in
// the state [Stale]. stale-if-error of the origin (RFC 5861) lowers this time;
// no-cache, must-revalidate, proxy-revalidate and s-maxage forbid it (RFC 9111,
// section 4.2.4). Any other failure is about the document, which is dropped. A 200 answer that can't be
// parsed is trouble, since it is likely to be a page about maintenance or half of a document.
//
// # Flights
//
// All callers that ask for a document at the same time share one flight: one Fetch
// and one Parse. A caller whose context ends returns at once, and the flight goes on
// for the others, or without callers until [Request.Timeout].
package cache
