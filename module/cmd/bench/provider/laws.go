package provider

import (
	"math"
	"math/rand/v2"
	"time"
)

// Law is a distribution of execution times, in seconds.
type Law struct {
	Name string
	Draw func(r *rand.Rand) float64
}

func lognormal(name string, median, sigma float64) Law {
	return Law{name, func(r *rand.Rand) float64 { return median * math.Exp(sigma*r.NormFloat64()) }}
}

func normal(name string, mean, deviation float64) Law {
	return Law{name, func(r *rand.Rand) float64 { return drawNormal(r, mean, deviation) }}
}

func drawNormal(r *rand.Rand, mean, deviation float64) float64 {
	return max(mean/10, mean*(1+deviation*r.NormFloat64()))
}

func exponential(name string, mean float64) Law {
	return Law{name, func(r *rand.Rand) float64 { return mean * r.ExpFloat64() }}
}

func bimodal(name string, often, seldom float64) Law {
	return Law{name, func(r *rand.Rand) float64 {
		if r.Float64() < 0.8 {
			return drawNormal(r, often, 0.15)
		}
		return drawNormal(r, seldom, 0.15)
	}}
}

func pareto(name string, alpha, least float64) Law {
	return Law{name, func(r *rand.Rand) float64 { return least * math.Pow(1-r.Float64(), -1/alpha) }}
}

// Laws are the distributions of the simulation, from easy to hard to predict.
var Laws = []Law{
	normal("2 s ± 2 %", 2, 0.02),
	normal("2 s ± 15 %", 2, 0.15),
	exponential("exponential, 0.2 s", 0.2),
	exponential("exponential, 2 s", 2),
	lognormal("log-normal, 2 s, σ 0.5", 2, 0.5),
	lognormal("log-normal, 2 s, σ 1", 2, 1),
	bimodal("0.2 s (80 %) or 8 s", 0.2, 8),
	lognormal("log-normal, 30 s, σ 0.4", 30, 0.4),
	pareto("Pareto, α 1.5, from 0.5 s", 1.5, 0.5),
}

// HTTPLaws are the indexes of the laws that are also measured over HTTP.
var HTTPLaws = []int{1, 3, 4}

// HTTPSpeed divides execution times, intervals and the price of a poll in the measurement over HTTP.
const HTTPSpeed = 4

// DrawTime draws an execution time and divides it by faster.
func (l Law) DrawTime(r *rand.Rand, faster int) time.Duration {
	return time.Duration(l.Draw(r) * float64(time.Second) / float64(faster))
}
