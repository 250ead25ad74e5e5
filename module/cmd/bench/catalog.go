package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// pageOfSkills is the number of skills on a page of list_skills.
const pageOfSkills = 50

// listSkills returns the body of a request for a page after a cursor.
func listSkills(cursor string) []byte {
	if cursor != "" {
		cursor = `,"cursor":"` + cursor + `"`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"req-000042","method":"list_skills","params":{"limit":%d%s}}`, pageOfSkills, cursor)
}

// holds returns a check that an answer has a number of some text.
func holds(text string, n int) func(answer []byte) error {
	return func(answer []byte) error {
		if got := bytes.Count(answer, []byte(text)); got != n {
			return fmt.Errorf("a wrong answer, with %d and not %d times %s: %.300s", got, n, text, answer)
		}
		return nil
	}
}

// measureCatalog measures lists of skills, by the number of skills and of providers.
func measureCatalog(b *bench) values {
	for _, size := range []struct {
		providers, skills int // skills of each provider
		goal              string
	}{{1, either(b, 1000, 10000), "≤ 0.2"}, {either(b, 10, 199), 50, "≤ 0.3"}} {
		skills := number(float64(size.providers * size.skills))
		b.say("catalog: %s skills of %d providers", skills, size.providers)
		u := b.StartUpstream("-providers", strconv.Itoa(size.providers), "-skills", strconv.Itoa(size.skills))
		c := b.StartCaddy(u.BridgeSite("bridge", "browse"))
		name := fmt.Sprintf("a page of %d of %s skills", min(pageOfSkills, size.skills), skills)
		if size.providers > 1 {
			name += fmt.Sprintf(", %d providers", size.providers)
		}
		to := &target{name, c.Addresses["bridge"], servers.BridgePath, "", []int{c.Pid()}}
		page := b.listLoad(to, wire.Request(http.MethodPost, to.address, to.path, listSkills("")), holds(`"name":"`, min(pageOfSkills, size.skills)))
		b.report.goal("Time of "+name+", ms", size.goal, page)
		if size.providers == 1 {
			b.report.goal("Time of all pages of "+skills+" skills, ms", "≤ 40", allPages(b, to.address, size.skills))
			browser := wire.Request(http.MethodGet, to.address, to.path, nil)
			browser = bytes.Replace(browser, []byte("\r\n\r\n"), []byte("\r\nAccept: text/html\r\n\r\n"), 1)
			to.name = "the page for browsers, " + skills + " skills"
			b.report.goal("Time of "+to.name+", ms", "≤ 8", b.listLoad(to, browser, holds("</html>", 1)))
		}
		c.Stop()
		u.Stop()
	}
	return nil // the summary has the figures
}

// listLoad returns the time of a request over one connection, in milliseconds.
func (b *bench) listLoad(to *target, request []byte, accept func([]byte) error) string {
	l := b.loadOf(to, request, accept, 1)
	b.compare([]*load{l}, b.slice())
	l.close()
	return fmt.Sprintf("%.2f", 1000/l.all().rate())
}

// allPages returns the time in which a caller reads a list from its first to its last page.
func allPages(b *bench, address string, skills int) string {
	c := must(wire.Dial(address))
	defer c.Close()
	seconds := make([]float64, either(b, 1, 5))
	for i := range seconds {
		start, found, cursor := time.Now(), 0, ""
		for {
			check(context.Cause(b.Context))
			check(c.SetDeadline(time.Now().Add(wire.Patience)))
			answer := must(c.Do(wire.Request(http.MethodPost, address, servers.BridgePath, listSkills(cursor))))
			found += bytes.Count(answer, []byte(`"name":"`))
			_, next, _ := strings.Cut(string(answer), `"next_cursor":"`)
			if cursor, _, _ = strings.Cut(next, `"`); cursor == "" {
				break
			}
		}
		if found != skills {
			check(fmt.Errorf("the pages have %d of %d skills", found, skills))
		}
		seconds[i] = time.Since(start).Seconds()
	}
	return fmt.Sprintf("%.0f", statistics.Median(seconds)*1e3)
}
