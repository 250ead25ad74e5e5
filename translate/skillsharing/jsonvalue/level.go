package jsonvalue

// Level says how much a JSON value contains at one depth.
type Level struct {
	Values int
	Bytes  int // of text: strings, numbers and member names
}

// Levels returns the levels of a value that [Read] returned.
func Levels(v any) []Level { return measureInto(nil, v, "", 0) }

func measureInto(levels []Level, v any, name string, depth int) []Level {
	if depth == len(levels) {
		levels = append(levels, Level{})
	}
	levels[depth].Values++
	levels[depth].Bytes += len(name) + 1
	switch v := v.(type) {
	case string:
		levels[depth].Bytes += len(v)
	case Number:
		levels[depth].Bytes += len(v)
	case []any:
		for _, item := range v {
			levels = measureInto(levels, item, "", depth+1)
		}
	case map[string]any:
		for name, member := range v {
			levels = measureInto(levels, member, name, depth+1)
		}
	}
	return levels
}

// ValuesIn counts a value that [Read] returned and all values in it.
func ValuesIn(v any) (n int) {
	for _, l := range Levels(v) {
		n += l.Values
	}
	return n
}

// LongestArray returns the length of the longest array in a value.
func LongestArray(v any) int {
	longest := 0
	switch v := v.(type) {
	case []any:
		longest = len(v)
		for _, item := range v {
			longest = max(longest, LongestArray(item))
		}
	case map[string]any:
		for _, member := range v {
			longest = max(longest, LongestArray(member))
		}
	}
	return longest
}
