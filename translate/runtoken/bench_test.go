package runtoken_test

import "testing"

func BenchmarkSeal(b *testing.B) {
	s, _, _ := newSealer()
	b.ReportAllocs()
	var token string
	for b.Loop() {
		token = mustSeal(b, s, aRun, principal)
	}
	b.ReportMetric(float64(len(token)), "characters")
}

func BenchmarkOpen(b *testing.B) {
	s, _, _ := newSealer()
	token := mustSeal(b, s, aRun, principal)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(b.Context(), token, blocks, principal); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenForged measures the work that an attacker without a key, but with the id of
// one, can cause.
func BenchmarkOpenForged(b *testing.B) {
	s, _, _ := newSealer()
	token := mustSeal(b, s, aRun, principal)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(b.Context(), token, blocks, "mallory"); err == nil {
			b.Fatal("opened")
		}
	}
}
