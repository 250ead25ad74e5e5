// Package card makes the agent cards of A2A 1.0, 0.3, 0.2 and 0.1. A card lists the skills of an agent, the URL of its endpoint
// and the ways to authenticate.
//
// A [Builder] makes the card of all skills and the card of each skill. The combined card is valid in 1.0 and in 0.3;
// a client that names a version gets a card of that version only. [Serve] answers an HTTP request with a card.
//
// # Cost
//
// Any client can request a card, without authentication. So the JSON of the skills is made only when the list of skills
// changes, and kept for anonymous callers, for callers with a principal, and for the extended card. The bridge is asked again
// for the list only after [recheck]. Concurrent requests share that query. If it takes longer than [patience], they get the old card.
// With an empty cache of documents, a card costs one request for each index and, if there are at most [maxDescribed] skills,
// one for each descriptor. The cache remembers failures, and the limits reads and failed_reads apply. If a descriptor could not be
// read, descriptors are read again after [describeAgain]. A card has at most about 11 MB. Most of that memory is shared by all
// requests: only the part with the URL is made for each request.
package card
