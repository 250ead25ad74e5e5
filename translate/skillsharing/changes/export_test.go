package changes

// Known returns how many skills the guard has in memory.
func (g *Guard) Known() int { return len(g.known) }
