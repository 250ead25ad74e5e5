// Package share bounds what callers, sources and hosts have of something at a time, so that none of them takes all of it.
//
//   - A [Pool] bounds a number or bytes of all owners together, by the rule of [Fits]: one owner has at most half, and an owner that has nothing finds room
//     until all of it is taken. A [Part] of it is refused or waits.
//   - A [Rate] bounds how often something begins.
//   - In a [Queue], work waits for one of a number of places, which sources and their callers get in [Turns].
//   - A [Heap] says which of those that wait is next by a time or a rank.
package share
