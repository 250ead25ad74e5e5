package usage

// SetMost sets how many rows a table has.
func SetMost(t *Table, most int) { t.most = most }

// Labelled returns the principals that have metrics.
func Labelled(t *Table) (principals []string) {
	for p := range t.series {
		principals = append(principals, p.principal)
	}
	return principals
}
