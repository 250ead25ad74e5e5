package provider

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The skills of the provider. Some names have a number at the end.
const (
	Now     = "now"     // completes at once
	Typical = "typical" // the same, with an API key and four small schemas
	Points  = "points"  // the same, with a schema of an array of objects
	Large   = "large"   // the same, with an output of 1 MB
	Keyed   = "keyed"   // before the name of Now or Poll: the same with an API key
	Poll    = "poll"    // with a number: completes with this number of polls
	Hold    = "hold"    // runs until /release
	Timed   = "law"     // with a number: takes an execution time of this law, divided by HTTPSpeed
	Wait    = "wait"    // with a number: takes this number of milliseconds
	Many    = "many"    // with a number: like Now; a flag sets how many there are
)

// After is the path, before a number, of an answer that takes this number of milliseconds.
const After = "/after/"

// PollCounts are the numbers of the skills Poll.
var PollCounts = []int{1, 2, 4, 8}

// Waits are the numbers of the skills Wait.
var Waits = []int{300, 3000}

// skills returns the names of a number of skills, or those of all but Many.
func skills(n int) []string {
	names := make([]string, 0, 20+n)
	names = append(names, Now)
	if n > 0 {
		for i := range n - 1 {
			names = append(names, Many+strconv.Itoa(i))
		}
		return names
	}
	names = append(names, Typical, Points, Large, Hold, Keyed+Now)
	for kind, numbers := range map[string][]int{Poll: PollCounts, Keyed + Poll: PollCounts, Timed: HTTPLaws, Wait: Waits} {
		for _, number := range numbers {
			names = append(names, kind+strconv.Itoa(number))
		}
	}
	slices.Sort(names[1:])
	return names
}

// Output is the output of all runs except those of Timed, Wait and Large.
const Output = `{"location":"Tokyo","forecasts":[{"date":"2026-01-02","high":11,"low":4},{"date":"2026-01-03","high":9,"low":3,"condition":"sunny"}]}`

// LargeOutput is the output of Large.
var LargeOutput = "[" + strings.Repeat(Output+",", 1e6/len(Output)) + Output + "]"

const nowHead = `{"execution_id":"exec-a1b2c3d4","status":"completed","skill_id":"bench/now",` +
	`"timestamps":{"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:08Z","completed_at":"2026-01-02T03:04:08Z"},"output":`

// NowAnswer is the answer for a run that completes at once, of typical size.
const NowAnswer = nowHead + Output + "}"

// LargeAnswer is the answer for a run of Large.
var LargeAnswer = nowHead + LargeOutput + "}"

// The inputs of descriptors, and their auth and access.
const (
	inputsNow = `{"name":"location","type":"string","description":"A city.","required":true},` +
		`{"name":"days","type":"number","description":"How many days to look ahead.","required":false,"schema":{"minimum":1,"maximum":14}}`
	inputsMore    = inputsNow + `,{"name":"more","type":"object","description":"Further circumstances.","required":false}`
	inputsTypical = `{"name":"location","type":"string","description":"A city.","required":true,"schema":{"type":"string","minLength":1,"maxLength":200}},` +
		`{"name":"days","type":"integer","description":"How many days to look ahead.","required":false,"schema":{"type":"integer","minimum":1,"maximum":14}},` +
		`{"name":"units","type":"string","description":"The system of units.","required":false,"schema":{"type":"string","enum":["metric","imperial"]}},` +
		`{"name":"include","type":"array","description":"What to include.","required":false,` +
		`"schema":{"type":"array","items":{"type":"string","maxLength":40},"maxItems":20}}`
	inputsPoints = `{"name":"points","type":"array","description":"Places.","required":true,"schema":{"type":"array","items":{"type":"object","properties":{` +
		`"lat":{"type":"number","minimum":-90,"maximum":90},"lon":{"type":"number","minimum":-180,"maximum":180},"label":{"type":"string","maxLength":200},` +
		`"tags":{"type":"array","items":{"type":"string"},"maxItems":10}},"required":["lat","lon"],"additionalProperties":false}}}`

	open   = `"auth":{"type":"none"},"access":"public"`
	sealed = `"auth":{"type":"api_key","header":"X-API-Key"},"access":"restricted"`
)

// describe appends the descriptor of a skill.
func (p *Provider) describe(to []byte, skill string) []byte {
	inputs, access := inputsMore, open
	switch {
	case skill == Typical:
		inputs, access = inputsTypical, sealed
	case skill == Points:
		inputs = inputsPoints
	case strings.HasPrefix(skill, Keyed):
		access = sealed
	case strings.HasPrefix(skill, Many):
		inputs = inputsNow
	}
	return fmt.Appendf(to, `{"protocol":{"version":"1.0.0"},"id":"bench/%[2]s","name":"Skill","version":"1.0.0","capability_type":"api",`+
		`"description":"Does something.","provider":{"name":"Bench"},`+
		`"endpoint":{"url":"%[1]s/run/%[2]s","method":"POST","status_url":"%[1]s/status/{execution_id}"},`+
		`"inputs":[%[3]s],"output":{"content_type":"application/json"},%[4]s}`, p.origin, skill, inputs, access)
}

// executionTime returns the time that a run takes.
func (p *Provider) executionTime(kind string, n int) time.Duration {
	if kind == Wait {
		return time.Duration(n) * time.Millisecond
	}
	p.drawing.Lock()
	defer p.drawing.Unlock()
	return Laws[n].DrawTime(p.random, HTTPSpeed)
}
