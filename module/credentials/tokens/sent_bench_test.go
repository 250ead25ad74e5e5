package tokens

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSent looks for the tokens of many users in an output of 64 KiB, which must not take longer than for a few.
func BenchmarkSent(b *testing.B) {
	output := []byte(strings.Repeat(`{"name":"Restaurant Chez Pierre","link":"https://opentable.example.com/restaurants/chez-pierre?date=2026-11-30","seats":4},`, 530))
	for _, users := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(users), func(b *testing.B) {
			s := new(Sent)
			for range users {
				s.AddTokens("eyJhbGciOiJSUzI1NiIsImtpZCI6ImtleSIsInR5cCI6ImF0K2p3dCJ9."+strings.Repeat("e", 400)+"."+rand.Text()+rand.Text(), rand.Text()+rand.Text())
			}
			b.SetBytes(int64(len(output)))
			for b.Loop() {
				if len(s.Find(output)) > 0 {
					b.Fatal("found")
				}
			}
		})
	}
}
