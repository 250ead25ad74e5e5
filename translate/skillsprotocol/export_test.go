package skillsprotocol

import "slices"

// MethodParams returns the sorted names of the params of each method.
func MethodParams() map[string][]string {
	all := map[string][]string{}
	for _, method := range methodNames() {
		all[method] = []string{}
		for _, id := range methods[method].params {
			all[method] = append(all[method], paramNames[id])
		}
		slices.Sort(all[method])
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
