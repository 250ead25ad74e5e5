// Package polling decides when to ask for the state of a run, by the execution times
// of earlier runs of the same skill. It makes no requests.
//
// # Use
//
// A [Store] holds what was learned of every skill. A [Run] says when to poll one run:
//
//	store := polling.NewStore(polling.Config{Price: 20 * time.Millisecond})
//	…
//	run := polling.Start(store.Learner(key), budgets.Of(host), accepted, deadline)
//	delay := run.Next(retryAfter)
//	for sleep(ctx, delay) && run.Turn().Wait(ctx, deadline, true) {
//		run.Ask()
//		answer := ask(ctx)
//		switch {
//		case answer.completed:
//			run.Done(answer.executionTime, false) // 0 if the provider did not say
//			return
//		case answer.tooManyRequests:
//			run.Throttled()
//			failures++
//			delay = run.Retry(failures, answer.retryAfter)
//			continue
//		case answer.running:
//			run.Running(false)
//		}
//		delay = run.Next(answer.retryAfter)
//	}
//
// [Fixed] and [Backoff] are plans that learn nothing.
//
// # The optimum
//
// A poll has a cost, and so has the delay between the end of a run and the poll that
// finds it. With a price for a poll, in seconds of delay, the best schedule minimises
//
//	price × expected polls + expected delay
//
// This is the inspection problem of Barlow, Hunter and Proschan ("Optimum
// checking procedures", Journal of the Society for Industrial and Applied
// Mathematics 11, 1963). Keller ("Optimum checking schedules for systems subject
// to random failure", Management Science 21, 1974) gives its shape: the density of
// polls is the square root of hazard / (2 × price). So a memoryless skill is polled at
// a fixed period, one that takes two seconds give or take little is not polled before,
// and one that is either quick or slow is not polled between. If nothing is known but
// that no scale is likelier than another, polls belong at times proportional to k²: at
// 55 ms × k² for a price of 20 ms. That is how an unknown skill is polled.
//
// # What is learned
//
// Of each skill, the newest 128 execution times are kept. A schedule is made of them in
// three steps:
//
//  1. The law: every time is spread evenly, on a logarithmic scale, as far as its
//     next few neighbours lie (a nearest-neighbour kernel; Breiman, Meisel and
//     Purcell, "Variable kernel estimates of multivariate densities",
//     Technometrics 19, 1977). No family of distributions is assumed, and a gap
//     between two modes stays a gap. The times without this spread give schedules
//     that fit accidents of the sample, with a tenth more delay.
//  2. Two more observations' worth of the law for an unknown skill are mixed in.
//  3. Dynamic programming over all execution times and a grid of eight times per
//     octave finds the best polls exactly.
//
// This takes less than a tenth of a millisecond. It is done after every execution
// at first, later after every sixteenth, and in the background: see [Config.Run].
//
// # When a skill changes
//
// Each execution time is ranked among the older ones. If a skill has not changed,
// all ranks are equally likely, whatever its law. Two cumulative sums (Page,
// "Continuous inspection schemes", Biometrika 41, 1954) grow while ranks are too low or
// too high. While one of them is high, the times since its rise count in proportion to
// the evidence for a change; once it is certain, older times are forgotten. Usually
// four executions are enough.
//
// If a skill becomes faster, the polls come too late to see it. So when the first poll
// finds that a run has ended well before, and earlier than nearly all others, a new
// schedule is made at once, and until three such surprises its first poll comes no later
// than at twice the fastest time, or at the first decile if that is later.
//
// # Rules
//
// Every plan keeps these rules:
//
//   - A run is never polled sooner than 20 ms after the answer before.
//   - The delay that a provider asks for (Retry-After) is the least, however long.
//   - The last poll comes just early enough to be answered by the deadline. After it,
//     the delay is [Never].
//   - Delays vary at random by up to 5 %, so that callers do not poll in step. A
//     [Learner] varies the smaller of the gaps on either side of a poll, since polls that
//     lie close need precision; and only to later times, since a poll just before the end
//     of a run finds nothing.
//
// A Learner also
//
//   - leaves at most five seconds between polls, or a quarter of the elapsed time
//     if that is longer, unless the provider asks for more;
//   - polls half a round trip early;
//   - doubles the price of a poll when a provider says that there are too many
//     (429 or 503), and halves it again for each minute without such an answer.
//
// A [Budget] bounds how many polls per second one host gets in all. If there are more,
// those of runs that are likely to have ended go first. The others wait until theirs are,
// but at most five seconds, or a quarter of the time that they have been running.
//
// # Providers that lie
//
// The execution time is a provider's own statement. It counts within what the polls
// found: a run that was running at one poll and had ended by the next took at least as
// long as the one and at most as long as the other. By lying within this, by completing
// nothing or by asking for long delays, a provider only delays the news of its own
// skills, within the rules above. One that publishes many skills or versions makes the
// store forget its own first.
package polling
