package share

// MakeRoom removes entries of a map, by chance, until it has fewer than most.
func MakeRoom[K comparable, V any](m map[K]V, most int) {
	for key := range m {
		if len(m) < most {
			return
		}
		delete(m, key)
	}
}
