package translate

// Size is how many faults are remembered, and what they take.
func (f *Faults) Size() (faults, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.order.Len(), f.size
}
