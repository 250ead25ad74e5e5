// Package card makes the agent cards of A2A 1.0, 0.3, 0.2 and 0.1: what an agent can do, where it is, and how to
// authenticate.
//
// A [Builder] makes the card of all skills, and that of each single skill. One combined card is valid in 1.0 and in 0.3;
// a client that names a version gets a card of that version only. [Serve] answers an HTTP request with a card.
//
// # Cost
//
// Everybody may ask for a card. So the skills are written once for each change of the list, and kept: for anonymous
// callers, for known callers, and for the extended card. A kept list is read again only after [recheck]. Concurrent
// requests share the reading. If it takes longer than [patience], they get the card as it was. When nothing is in the
// cache, a card costs one request for each index and, of at most [maxDescribed] skills, one for each descriptor. The
// cache remembers failures, and the limits reads and failed_reads apply. If a descriptor could not be read, the next
// attempt follows after [describeAgain]. A card has at most about 11 MB, most of which all
// requests share: only the part with the URL is made for each request.
package card
