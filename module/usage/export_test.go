package usage

// SetMost sets how many rows a table has.
func SetMost(t *Table, most int) { t.most = most }
