package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// estimate is a value with its 95 % interval.
type estimate struct{ value, low, high float64 }

// format formats the value, and its interval in brackets.
func (e estimate) format(verb string) string {
	return fmt.Sprintf(verb+" ["+verb+", "+verb+"]", e.value, e.low, e.high)
}

// resamples is the number of resamples of a bootstrap.
const resamples = 1000

// bootstrap estimates a statistic of n observations. f computes it for the observations with the given
// indexes. The interval has the middle 95 % of the statistics of resamples with replacement (Efron,
// "Bootstrap methods", The Annals of Statistics 7, 1979).
func bootstrap(r *rand.Rand, n int, f func(indexes []int) float64) estimate {
	chosen := indexes(n)
	e := estimate{value: f(chosen)}
	drawn := make([]float64, resamples)
	for k := range drawn {
		for i := range chosen {
			chosen[i] = r.IntN(n)
		}
		drawn[k] = f(chosen)
	}
	slices.Sort(drawn)
	e.low, e.high = percentile(drawn, 2.5), percentile(drawn, 97.5)
	return e
}

// indexes returns the numbers from 0 to n-1.
func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// percentile returns the smallest of the sorted values that at least p percent of them do not exceed.
func percentile[T any](sorted []T, p float64) T {
	const rounding = 1e-9 // so that 99.9 % of 1000 is exactly 999
	rank := int(math.Ceil(p/100*float64(len(sorted)) - rounding))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median returns the median. It sorts the values.
func median(values []float64) float64 {
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}

// meanOf returns the mean of the values with the given indexes.
func meanOf(values []float64, indexes []int) (m float64) {
	for _, k := range indexes {
		m += values[k] / float64(len(indexes))
	}
	return m
}

// slope returns the slope of the least-squares line through the points.
func slope(x, y []float64) float64 {
	var mx, my, xy, xx float64
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(y))
	}
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	return xy / xx
}

// pollSlope returns the slope of values over the numbers of polls in pollCounts.
func pollSlope(y []float64) float64 {
	x := make([]float64, len(pollCounts))
	for i, n := range pollCounts {
		x[i] = float64(n)
	}
	return slope(x, y)
}
