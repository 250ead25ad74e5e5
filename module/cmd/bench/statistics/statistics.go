// Package statistics estimates values of measurements, with intervals.
package statistics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Estimate is a value with its 95 % interval.
type Estimate struct{ Value, Low, High float64 }

// Format formats the value, and its interval in brackets, if it is one.
func (e Estimate) Format(verb string) string {
	if e.Low == e.High {
		return fmt.Sprintf(verb, e.Value)
	}
	return fmt.Sprintf(verb+" ["+verb+", "+verb+"]", e.Value, e.Low, e.High)
}

// resamples is the number of resamples of a bootstrap.
const resamples = 1000

// Bootstrap estimates a statistic of n observations. f computes it for the observations with the given
// indexes. The interval has the middle 95 % of the statistics of resamples with replacement (Efron,
// "Bootstrap methods", The Annals of Statistics 7, 1979).
func Bootstrap(r *rand.Rand, n int, f func(indexes []int) float64) Estimate {
	chosen := Indexes(n)
	e := Estimate{Value: f(chosen)}
	drawn := make([]float64, resamples)
	for k := range drawn {
		for i := range chosen {
			chosen[i] = r.IntN(n)
		}
		drawn[k] = f(chosen)
	}
	slices.Sort(drawn)
	e.Low, e.High = Percentile(drawn, 2.5), Percentile(drawn, 97.5)
	return e
}

// Indexes returns the numbers from 0 to n-1.
func Indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Percentile returns the smallest of the sorted values that at least p percent of them do not exceed.
func Percentile[T any](sorted []T, p float64) T {
	const rounding = 1e-9 // so that 99.9 % of 1000 is exactly 999
	rank := int(math.Ceil(p/100*float64(len(sorted)) - rounding))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the median. It sorts the values.
func Median(values []float64) float64 {
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}

// Mean returns the mean of the values with the given indexes.
func Mean(values []float64, indexes []int) (m float64) {
	for _, k := range indexes {
		m += values[k] / float64(len(indexes))
	}
	return m
}

// Slope returns the slope of the least-squares line through the points.
func Slope(x, y []float64) float64 {
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
