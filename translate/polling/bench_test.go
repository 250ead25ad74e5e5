package polling_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

func BenchmarkSchedule(b *testing.B) {
	for i, l := range nine {
		b.Run(l.name, func(b *testing.B) {
			history := taught(b, polling.DefaultPrice, l, 128, newRandom(i)).History()
			var p polling.Planner
			var s *polling.Schedule
			b.ReportAllocs()
			for b.Loop() {
				s = p.Schedule(history, polling.DefaultPrice)
			}
			b.ReportMetric(float64(len(s.Times())), "polls")
		})
	}
}

func BenchmarkNext(b *testing.B) {
	learner := taught(b, polling.DefaultPrice, nine[4], 128, newRandom(1))
	progress := polling.Progress{Elapsed: time.Second, Polls: 3, RoundTrip: 10 * time.Millisecond, Remaining: time.Minute}
	b.ReportAllocs()
	for b.Loop() {
		if learner.Next(progress) <= 0 {
			b.Fatal("no delay")
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	learner := taught(b, polling.DefaultPrice, nine[4], 128, newRandom(1))
	history := learner.History()
	r := newRandom(2)
	b.ReportAllocs()
	for b.Loop() {
		d := duration(nine[4].draw(r))
		history.Add(polling.Completion{Execution: d, Ended: d, Polls: 2})
	}
}

// BenchmarkRun measures following one run with four polls.
func BenchmarkRun(b *testing.B) {
	learner := taught(b, polling.DefaultPrice, nine[4], 128, newRandom(1))
	budget := polling.NewBudgets(1e9, 1e9).Of("acme")
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		run := polling.Start(learner, budget, now, now.Add(time.Minute))
		for range 4 {
			run.Next(0)
			run.Turn().Wait(b.Context(), time.Time{}, true)
			run.Ask()
			run.Running()
		}
	}
}

// BenchmarkBudget measures the turns of polls that are made at the same time.
func BenchmarkBudget(b *testing.B) {
	budget := polling.NewBudgets(1e9, 1e9).Of("acme")
	b.RunParallel(func(each *testing.PB) {
		for each.Next() {
			budget.Wait(b.Context(), time.Now(), polling.Never, time.Time{})
		}
	})
}

func BenchmarkSave(b *testing.B) {
	store := newStore(b, 0, newRandom(1))
	for i := range 1000 {
		l := store.Learner(polling.Key{Provider: "https://acme.example", Skill: "acme/skill", Version: string(rune('a' + i))})
		for range 128 {
			l.History().Add(polling.Completion{Execution: time.Second, Ended: 2 * time.Second, Polls: 3})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(store.Save()))/1000, "B/skill")
	}
}
