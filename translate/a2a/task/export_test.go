package task

// Encode and Decode are for tests.
var (
	Encode = encode
	Decode = decode
)
