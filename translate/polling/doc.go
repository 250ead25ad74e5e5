// Package polling decides when to poll a run, by the execution times of earlier runs of
// the same skill. It makes no requests.
//
// # Use
//
// A [Store] holds the execution times of all skills. A [Run] says when to poll one run:
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
// [Backoff] is a plan that learns nothing.
//
// # The optimum
//
// A poll has a cost, and so has the delay between the end of a run and the poll that
// finds it. If the price of a poll is given in seconds of delay, the best schedule minimises
//
//	price × expected polls + expected delay
//
// This is the inspection problem of Barlow, Hunter and Proschan ("Optimum
// checking procedures", Journal of the Society for Industrial and Applied
// Mathematics 11, 1963). Keller ("Optimum checking schedules for systems subject
// to random failure", Management Science 21, 1974) gives its shape: the density of
// polls is the square root of hazard / (2 × price). So a skill with exponentially
// distributed times is polled at a fixed interval, one that always takes about two seconds
// is not polled before, and one that is either quick or slow is not polled in between. For
// an unknown skill, all scales of time are taken to be equally likely. Then the best times
// are proportional to k²: 55 ms × k² for a price of 20 ms.
//
// # What is learned
//
// The store keeps the newest 128 execution times of each skill. A schedule is made of them
// in three steps:
//
//  1. The distribution is estimated: every time is spread evenly, on a logarithmic scale,
//     as far as its nearest neighbours (a nearest-neighbour kernel; Breiman, Meisel and
//     Purcell, "Variable kernel estimates of multivariate densities",
//     Technometrics 19, 1977). This assumes no family of distributions and keeps gaps
//     between modes. Without the spread, schedules overfit the sample, with a tenth more
//     delay.
//  2. The distribution for an unknown skill is mixed in, with the weight of two
//     observations.
//  3. Dynamic programming over all execution times and a grid of eight times per
//     octave finds the optimal polls.
//
// This takes less than a tenth of a millisecond. It is done in the background (see
// [Config.Run]), at first after every execution, later after every sixteenth.
//
// # When a skill changes
//
// Each execution time is ranked among the older ones. If a skill has not changed,
// all ranks are equally likely, whatever the distribution. Two cumulative sums (Page,
// "Continuous inspection schemes", Biometrika 41, 1954) grow while ranks are too low or
// too high. While one of them is high, the times since its rise get more weight, in
// proportion to the evidence for a change. Once the change is certain, older times are
// deleted. Usually four executions are enough.
//
// If a skill becomes faster, the polls may be too late to measure it. So if the first poll
// finds that a run has ended long before, and earlier than nearly all others, a new
// schedule is made at once. Until there are three such surprises, its first poll is at
// twice the fastest time or at the first decile, whichever is later, or before.
//
// # Rules
//
// Every plan keeps these rules:
//
//   - A run is never polled sooner than 20 ms after the previous answer.
//   - A run is never polled before the provider's Retry-After has passed.
//   - The last poll is just early enough to be answered by the deadline. After it,
//     the delay is [Never].
//   - Delays vary at random by up to 5 %, so that callers do not poll in step. A
//     [Learner] adds up to 5 % of the smaller of the gaps before and after a poll, since
//     polls that are close together need precision. It only adds, since a poll just before
//     the end of a run is useless.
//
// A Learner also
//
//   - leaves at most five seconds between polls, or a quarter of the elapsed time
//     if that is longer, unless the provider asks for more;
//   - polls half a round trip early;
//   - doubles the price of a poll when a provider says that there are too many
//     (429 or 503), and halves it again for each minute without such an answer.
//
// A [Budget] bounds the polls per second of one host. If there are more, those go first
// whose runs have likely ended. The others wait until theirs have, but at most five
// seconds or a quarter of the time that they have been running. [NewEarnedBudgets] bounds
// polls that find no end more than others: each poll costs memory and processor time, here and at the
// provider, and thousands of runs that go on need no more of them than a few do. A host that says that there are too
// many (429 or 503), or answers slowly, gets fewer for a while.
//
// # Providers that lie
//
// The provider states the execution time. It is used within the bounds that the polls
// set: a run that was running at one poll and had ended by the next took a time between
// the two. A provider that lies within these bounds, completes nothing or asks for long
// delays only delays the outcomes of its own skills, within the rules above. If a
// provider publishes many skills or versions, the store forgets those first.
package polling
