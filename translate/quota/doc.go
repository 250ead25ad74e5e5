// Package quota bounds how much each caller may use skills, by rules of the operator.
//
// A [Policy] is made of [Rules]. Each rule that applies to a caller and to a skill bounds the caller's calls of all skills that the rule is for:
// how many begin in a time, how many runs go on at once, and how many runs are accepted in a time. Each caller has counts of its own, also under
// a rule for a group or for everyone. All anonymous callers together are one caller.
//
// The counts are in [Counters], which policies share, so that they outlive a configuration.
package quota
