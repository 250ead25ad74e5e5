package jsonvalue

import "iter"

// Place says where a value is in another.
type Place struct {
	Name  string // of the member that the value is; empty: it is an item, or the value as a whole
	Depth int    // objects and arrays around it
}

// Within returns a value that [Read] returned and all values in it.
func Within(v any) iter.Seq2[Place, any] {
	return func(yield func(Place, any) bool) { each(Place{}, v, yield) }
}

func each(at Place, v any, yield func(Place, any) bool) bool {
	if !yield(at, v) {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !each(Place{Depth: at.Depth + 1}, item, yield) {
				return false
			}
		}
	case map[string]any:
		for name, member := range v {
			if !each(Place{name, at.Depth + 1}, member, yield) {
				return false
			}
		}
	}
	return true
}

// Size says how much a JSON value contains.
type Size struct {
	Levels   int // objects, arrays and scalars within each other
	Values   int
	Objects  int
	Booleans int
	Bytes    int // of text: strings, numbers and member names, and one for each value
}

// SizeOf returns the size of a value that [Read] returned.
func SizeOf(v any) (s Size) {
	for at, in := range Within(v) {
		s.Levels = max(s.Levels, at.Depth+1)
		s.Values++
		s.Bytes += len(at.Name) + 1
		switch in := in.(type) {
		case string:
			s.Bytes += len(in)
		case Number:
			s.Bytes += len(in)
		case map[string]any:
			s.Objects++
		case bool:
			s.Booleans++
		}
	}
	return s
}
