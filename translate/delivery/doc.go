// Package delivery sends the events of ledger entries to URLs of callers, at least once and in order: the end of a run to its call-back, each new state of an
// A2A task to its webhooks.
//
// A [Delivery] is one receiver of a run. It is added when the run has been claimed and before anything is submitted, and removed when the receiver has got the
// last event or is given up; one that gets several events stays as long as the run, so that its client can read it. A [Deliverer] hears of new versions of
// entries from the ledger, takes the deliveries of their runs from the [Store], and sends the events that a [Sender] makes of the versions, with the newest
// configuration that serves the run. A request for an end that fails is sent again with pauses that grow to hours; after the eighth one, or the answer 410, the
// delivery is given up. One of several events is sent again after the pauses of some seconds each, during which the delivery stays claimed and in
// memory; then the event is lost, and after several of them in a row the delivery is over.
//
// # Instances and crashes
//
// An instance claims a delivery for half a minute before it sends, and extends the claim before each request, unless it was just made. So one instance sends at
// a time. When it crashes, its claims end, and another instance goes on. Changes of entries that were not announced, such as by a crash between a change and
// its delivery, are found by [Store.Unheard]. A receiver gets an event twice if it can't be stored that it has got it.
//
// # Order
//
// Versions that this instance hears of are kept in memory until they are delivered, within bounds. What was not kept, such as versions during a pause or those
// that another instance has heard of, is replaced by the newest version, whose event then has the whole state. So a receiver may miss events, but never gets an
// older one after a newer one.
//
// # Cost
//
// Callers choose the addresses, so the requests are bounded as package webhook says: 64 at a time, of which 16 for one owner and 8 to one host; and eight at
// once and then one each second for an owner and a host, or for a receiver of several events: these have to come in order, and those of one run must not wait
// for those of another. Only deliveries that are due are in memory: up to 20,000, of which 512 of one owner and 16 of an owner to one host (256 of receivers of
// several events). What finds no place is deferred in the Store, so that neither its number nor a receiver that hangs delays the events of others.
package delivery
