package translate

import (
	"slices"
	"strings"
)

// maxCandidates bounds how many names are suggested.
const maxCandidates = 5

// near returns the names that may have been meant instead of name, the nearest
// first: those that differ in a few letters, as a whole or after their namespace.
func near(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	wanted := fold(name)
	if len(wanted) > 200 {
		return nil
	}
	for _, k := range known {
		d := min(distance(wanted, fold(k)), distance(lastSegment(wanted), lastSegment(fold(k))))
		if d <= max(1, len(lastSegment(wanted))/4) {
			found = append(found, candidate{k, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var list []string
	for _, c := range found[:min(len(found), maxCandidates)] {
		list = append(list, c.name)
	}
	return slices.Compact(list)
}

// fold makes spellings equal that differ in case or separators only.
func fold(name string) string {
	return strings.NewReplacer("/", ".", "_", "-").Replace(strings.ToLower(name))
}

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > 50 || diff < -50 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
