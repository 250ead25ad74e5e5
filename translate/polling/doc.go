// Package polling decides when to ask for the state of a run, by what was
// learned of earlier runs of the same skill. It makes no requests: it says how long to
// wait, and is told how it went. It only waits itself where a host is asked too often.
//
// # Use
//
// A [Book] holds what is known of every skill. A run is followed with a [Run]:
//
//	book := polling.NewBook(polling.Config{Price: 20 * time.Millisecond})
//	…
//	run := polling.Start(book.Learner(key), budgets.Of(host), accepted, deadline)
//	delay := run.Next(retryAfter)
//	for sleep(ctx, delay) && run.Turn().Wait(ctx, deadline, true) {
//		run.Ask()
//		answer := ask(ctx)
//		switch {
//		case answer.completed:
//			run.Done(answer.executionTime) // 0 if the provider did not say
//			return
//		case answer.tooManyRequests:
//			run.Throttled()
//			failures++
//			delay = run.Retry(failures, answer.retryAfter)
//			continue
//		case answer.running:
//			run.Running()
//		}
//		delay = run.Next(answer.retryAfter)
//	}
//
// [Fixed] and [Backoff] are plans that learn nothing, for those who prefer them.
// Whoever has no use for a Run fills in a [Progress] and asks a [Plan] directly.
//
// # The optimum
//
// A poll costs something, and so does every moment between the end of a run and
// the poll that finds it. With one price for a poll, in seconds of delay, the
// schedule to choose is the one that minimises
//
//	price × expected polls + expected delay
//
// This is the inspection problem of Barlow, Hunter and Proschan ("Optimum
// checking procedures", Journal of the Society for Industrial and Applied
// Mathematics 11, 1963). Keller ("Optimum checking schedules for systems subject
// to random failure", Management Science 21, 1974) gives its shape: polls are as
// dense as the square root of hazard / (2 × price). So a skill without memory is
// polled at a fixed period, one that takes two seconds give or take little is left
// alone until then, and one that is either quick or slow is left alone between.
// Where nothing is known but that no scale is likelier than another, polls belong
// at times proportional to k²: at 55 ms × k² for a price of 20 ms. That is how an
// unknown skill is polled.
//
// # What is learned
//
// Of each skill, a [History] keeps the newest 128 execution times. A [Schedule]
// is made of them in three steps:
//
//  1. The law: every time is spread evenly, on a logarithmic scale, as far as its
//     next few neighbours lie (a nearest-neighbour kernel; Breiman, Meisel and
//     Purcell, "Variable kernel estimates of multivariate densities",
//     Technometrics 19, 1977). No family of distributions is assumed, and a gap
//     between two modes stays a gap. Taking the times as they are instead makes
//     schedules chase accidents of the sample, at a tenth more delay.
//  2. Two more observations' worth of the law for an unknown skill are mixed in,
//     for what history cannot know.
//  3. The best times are found exactly, by dynamic programming over all execution
//     times and a grid of eight times per octave.
//
// This takes less than a tenth of a millisecond. It is done after every execution
// at first, later after every sixteenth, and never while somebody waits for it:
// see [Config.Run].
//
// # When a skill changes
//
// Each execution time is ranked among the older ones. If a skill has not changed,
// all ranks are equally likely, whatever its law. Two cumulative sums (Page,
// "Continuous inspection schemes", Biometrika 41, 1954) watch for ranks that are
// too low or too high for too long. While one of them is up, the times since it
// rose are believed in proportion to the evidence for them; once it is beyond
// doubt, what is older is forgotten. Usually four executions are enough.
//
// A skill that becomes faster is the harder case, because nobody looks early
// enough. So when the first poll finds a run to have ended well before, and
// earlier than nearly all others, the schedule is made anew at once, and until
// three such surprises the first poll comes no later than at twice the fastest
// time, or at the first decile if that is later.
//
// # Rules
//
// Whatever a plan would like:
//
//   - A run is never polled sooner than 20 ms after the answer before.
//   - What a provider asks for (Retry-After) is the least delay, however long.
//   - The last poll comes just early enough to be answered by the deadline, and
//     none comes after. [Never] is the answer when there is no poll left.
//   - Delays vary at random by up to 5 %, so that callers do not come in step. A
//     [Learner] applies this to the smaller of the gaps on either side of a poll:
//     where polls lie close, it is because precision matters. And it only ever
//     polls later by it: just before the end of a run, a poll is lost.
//
// And a Learner also
//
//   - never leaves a run alone for longer than five seconds, or a quarter of the
//     time it has been running if that is longer, unless the provider asks for it;
//   - asks half a round trip early;
//   - doubles the price of a poll when a provider says that there are too many
//     (429 or 503), and halves it again for each minute without such an answer.
//
// A [Budget] bounds how many polls per second one host gets in all, from whoever
// shares the [Budgets]. Where that is too few, the polls of runs go first that are likely
// to have ended; the others wait for the time at which theirs are, but never for longer
// than five seconds, or a quarter of the time for which they have been going on.
//
// # Providers that lie
//
// The times of an execution are a provider's own statement. They are believed
// within what was seen: a run that still went on at one poll and had ended by the
// next took at least as long as the one and at most as long as the other. By lying
// within this, by completing nothing or by asking for long delays, a provider
// makes its own skills slower to notice, within the rules above, and nothing
// else. One that publishes ever new skills or versions crowds out its own first.
package polling
