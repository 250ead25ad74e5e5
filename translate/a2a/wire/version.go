package wire

// Version is a version of A2A.
type Version uint8

// The versions.
const (
	V01 Version = iota + 1 // the first draft, with tasks/send
	V03                    // 0.2 is served as 0.3
	V10
)

// versionNames are the names of the versions.
var versionNames = [...]string{V01: "0.1", V03: "0.3", V10: "1.0"}

// String implements [fmt.Stringer] with the name, such as "1.0".
func (v Version) String() string {
	if int(v) < len(versionNames) {
		return versionNames[v]
	}
	return ""
}

// GetMethod returns the name of the method that reads a task.
func GetMethod(v Version) string {
	if v == V10 {
		return "GetTask"
	}
	return "tasks/get"
}

// Extension is the URI of the bridge's extension, and the name of the member in metadata that holds its data.
const Extension = "https://github.com/skill-bridge/caddy-skill-bridge/a2a/v1"

// stateNames are the names of the states in A2A 1.0, by state.
var stateNames = [...]string{
	"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED",
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED",
}

// maxID bounds ids, in characters, and maxURL bounds URLs, in bytes.
const (
	maxID  = 256
	maxURL = 2048
)
