package skillsprotocol

import "slices"

// MethodParams returns the sorted names of the params of each method.
func MethodParams() map[string][]string {
	all := map[string][]string{}
	for _, method := range methodNames() {
		all[method] = append([]string{}, slices.Sorted(slices.Values(methods[method].params))...)
	}
	return all
}

// Codes returns the meanings of the codes of errors.
func Codes() map[int]string {
	all := map[int]string{}
	for _, row := range codes {
		if row.Code != 0 {
			all[row.Code] = row.Meaning
		}
	}
	return all
}
