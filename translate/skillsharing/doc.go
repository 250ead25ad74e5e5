// Package skillsharing invokes skills by the Skill Sharing Protocol 1.0.0, as a consumer, and follows their runs to the end.
//
// A [Client] talks to one provider:
//
//	indexes, failure := client.Indexes(ctx, nil, time.Time{})  // section 4
//	skill, failure := client.Skill(ctx, discovery.NewLocation(indexes[0].Skills[0].DescriptorURL))
//	var stats Stats
//	r, failure := client.Submit(ctx, skill, &Invocation{…}, &stats) // section 5
//	if failure == nil && !r.State.Ended() {
//		r, failure = client.Follow(ctx, skill, &FollowOptions{ExecutionID: r.ExecutionID}, &stats)
//	}
//
// Submitting and following are separate, so that a run can be followed later, from another request or another process. Every
// error is a [run.Failure].
//
// The packages below it have these tasks: discovery reads documents through a cache, document reads and validates each of
// them, inputs checks arguments, exchange sends a request and judges the answer, and credential decides where secrets may
// go. What a remote document says is untrusted. It is validated and bounded where it enters, and it never decides where a
// secret goes.
package skillsharing
