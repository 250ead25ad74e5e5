// Package verdict says what errors of databases mean: what the operator has to do, and what a statement may have done.
package verdict

// Verdict is what an error of a database means.
type Verdict struct {
	// Advice says what the operator has to do.
	Advice string
	// Full says that the database can still be read.
	Full bool
	// Refused says that the database has refused a transaction because of another one, so that it can be tried again.
	Refused bool
	// Unsure says that a statement that writes may have had its effect.
	Unsure bool
	// Gone says that the connection broke. Another one may work.
	Gone bool
}

// AdviceSlow is the advice for a statement whose time was over.
const AdviceSlow = "The database did not answer in time. Look at its load, its disk and the network."
