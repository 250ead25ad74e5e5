package translate

// HoldOf begins a reading of a call, and returns the function that ends it.
func HoldOf(x Execution) (release func()) { return x.(*execution).hold.Hold() }
