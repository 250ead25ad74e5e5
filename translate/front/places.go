package front

import "sync"

// Places counts what callers have open, such as streams. The zero value is ready for use, also by several goroutines.
type Places struct {
	mu    sync.Mutex
	count int
	of    map[string]int // by principal
}

// fewFill is how many principals are few: if so many can take all places, the rule of [Places.Enter] holds that leaves room for others.
const fewFill = 16

// Enter counts one more of a principal, if there are fewer than most of all, and fewer than mostOfOne of the principal. If few
// principals could take all, further ones of n principals take at most n/(n+1), so that others always find room. All anonymous callers count as
// one.
func (p *Places) Enter(principal string, most, mostOfOne int) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, n := p.of[principal], len(p.of)
	if p.count >= most || own >= mostOfOne || mostOfOne*fewFill > most && own > 0 && p.count >= most-most/(n+1) {
		return nil, false
	}
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.count++
	p.of[principal]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count--
		if p.of[principal]--; p.of[principal] == 0 {
			delete(p.of, principal)
		}
	}, true
}
