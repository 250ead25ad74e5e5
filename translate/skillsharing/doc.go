// Package skillsharing is the consumer's side of the Skill Sharing Protocol
// 1.0.0: it reads and validates a provider's documents, decides where secrets
// may go, invokes skills, follows runs to their end and judges every answer on
// the way.
//
// A [Client] talks to one provider:
//
//	index, err := client.Index(ctx)                        // section 4
//	skill, err := client.Skill(ctx, index.Skills[0].DescriptorURL)
//	var stats Stats
//	run, err := client.Submit(ctx, skill, &Invocation{…}, &stats) // section 5
//	if !run.Status.Final() {
//		run, err = client.Follow(ctx, skill, &FollowOptions{…}, &stats)
//	}
//
// Submitting and following are separate, so that a run can be followed later,
// from another request or another process. Every error is a [*run.Failure].
//
// What a remote document says is untrusted. It is validated where it enters, it
// is bounded, and it never decides where a secret goes: [AllowedHosts] does.
package skillsharing
