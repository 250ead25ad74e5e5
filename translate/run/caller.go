package run

import "time"

// Caller says who asks, since when, and how.
type Caller struct {
	// Principal was established in front of the bridge; empty is anonymous.
	Principal string
	// TraceID is the trace the call belongs to (W3C Trace Context, 32 hexadecimal digits); empty: a new one is made.
	TraceID string
	// TraceParent is the traceparent header of requests to the provider; empty: they have none.
	TraceParent string
	// Arrived is when the call reached the bridge: deadlines count from there. Zero: when its call starts.
	Arrived time.Time
	// Front and Method are the protocol and the method by which the call came, for reports.
	Front, Method string
}
