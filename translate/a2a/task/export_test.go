package task

// Encode is encode for tests.
var Encode = (*Task).encode
