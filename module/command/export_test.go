package command

// For the tests.
var (
	LimitMemory = limitMemory
	ShowUsage   = showUsage
	Span        = span
)
