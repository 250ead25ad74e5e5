package cli

import (
	"fmt"
	"sync"
	"time"
)

// progress shows the progress of a call: on a terminal in one line that changes every
// second, otherwise in a line for each event.
type progress struct {
	screen *Screen
	start  time.Time
	end    func() // erases the changing line; further calls do nothing

	mu   sync.Mutex
	verb string
}

func newProgress(s *Screen) *progress {
	p := &progress{screen: s, start: time.Now(), verb: "invoking"}
	p.end = func() {}
	if !s.errTerminal {
		return p
	}
	var ticks sync.WaitGroup
	ended := make(chan struct{})
	ticks.Go(func() { p.tick(ended) })
	p.end = sync.OnceFunc(func() {
		close(ended)
		ticks.Wait()
		fmt.Fprint(s.Err, eraseLine)
	})
	return p
}

// eraseLine moves the cursor to the beginning of the line and erases the line (ECMA-48: CR, EL).
const eraseLine = "\r\x1b[K"

func (p *progress) tick(ended <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
			p.mu.Lock()
			fmt.Fprintf(p.screen.Err, "%s%s %d s", eraseLine, p.verb, int(time.Since(p.start).Seconds()))
			p.mu.Unlock()
		}
	}
}

// line writes a line that is not erased.
func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen.errTerminal {
		fmt.Fprint(p.screen.Err, eraseLine)
	}
	p.screen.note(printable(text))
}

// running writes a line that is not erased. After it, the changing line says "running".
func (p *progress) running(text string) {
	p.line(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verb = "running"
}
