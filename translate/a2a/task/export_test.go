package task

// AppendTask is appendTask for tests.
var AppendTask = appendTask
