package translate

import (
	"slices"
	"strings"
)

// Bounds of the search for names that may have been meant. An agent chooses the
// one name, and providers choose the others.
const (
	maxCandidates = 5
	maxNearName   = 64 // bytes; a longer name has no near ones
)

// near returns the names that may have been meant instead of name, the nearest
// first: those that differ in a few letters, as a whole or after their namespace.
func near(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	wanted := fold(name)
	if len(wanted) > maxNearName {
		return nil
	}
	last := lastSegment(wanted)
	limit := max(1, len(last)/4)
	for _, k := range known {
		if len(k) > maxNearName {
			continue
		}
		folded := fold(k)
		d := distance(last, lastSegment(folded), limit)
		if d > limit {
			d = distance(wanted, folded, limit)
		}
		if d <= limit {
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
	for _, c := range found {
		if !slices.Contains(list, c.name) {
			list = append(list, c.name)
		}
		if len(list) == maxCandidates {
			break
		}
	}
	return list
}

var folder = strings.NewReplacer("/", ".", "_", "-")

// fold makes spellings equal that differ in case or separators only.
func fold(name string) string { return folder.Replace(strings.ToLower(name)) }

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// distance is the Levenshtein distance of two texts in bytes, or some number
// greater than limit if it exceeds that.
func distance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff > limit || -diff > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
