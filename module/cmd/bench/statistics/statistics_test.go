package statistics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values []int
		p      float64
		want   int
	}{
		{[]int{7}, 50, 7},
		{[]int{7}, 99.9, 7},
		{[]int{1, 2, 3, 4}, 50, 2},
		{[]int{1, 2, 3, 4}, 51, 3},
		{[]int{1, 2, 3, 4}, 100, 4},
		{[]int{1, 2, 3, 4}, 0, 1},
	} {
		if got := Percentile(tc.values, tc.p); got != tc.want {
			t.Errorf("percentile %v of %v: %v, want %v", tc.p, tc.values, got, tc.want)
		}
	}
	thousand := Indexes(1000) // 0 to 999
	if got := Percentile(thousand, 99.9); got != 998 {
		t.Errorf("99.9 %% of a thousand do not exceed %d, want the last but one", got)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values []float64
		want   float64
	}{{[]float64{5}, 5}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(slices.Clone(tc.values)); got != tc.want {
			t.Errorf("median of %v: %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestSlope(t *testing.T) {
	t.Parallel()
	x := []float64{1, 2, 4, 8}
	for _, tc := range []struct {
		y    []float64
		want float64
	}{{[]float64{15, 18, 24, 36}, 3}, {[]float64{5, 5, 5, 5}, 0}, {[]float64{8, 7, 5, 1}, -1}} {
		if got := Slope(x, tc.y); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("slope through %v: %v, want %v", tc.y, got, tc.want)
		}
	}
}

// About 95 % of the intervals contain the true value.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	const repetitions, observations = 200, 60
	held := 0
	for range repetitions {
		values := make([]float64, observations)
		for i := range values {
			values[i] = 10 + r.NormFloat64()
		}
		e := Bootstrap(r, observations, func(indexes []int) float64 { return Mean(values, indexes) })
		if e.Low > e.Value || e.High < e.Value {
			t.Fatalf("%+v does not hold its own value", e)
		}
		if e.Low <= 10 && 10 <= e.High {
			held++
		}
	}
	if share := float64(held) / repetitions; share < 0.88 || share > 0.99 {
		t.Errorf("%.3f of the intervals hold the mean, want about 0.95", share)
	}
	if e := Bootstrap(r, 5, func([]int) float64 { return 3 }); e != (Estimate{3, 3, 3}) {
		t.Errorf("what does not vary is %+v", e)
	}
}

func TestEstimateFormat(t *testing.T) {
	t.Parallel()
	if got := (Estimate{1.234, -0.5, 2}).Format("%+.1f"); got != "+1.2 [-0.5, +2.0]" {
		t.Error(got)
	}
	if got := (Estimate{1, 1, 1}).Format("%.2f"); got != "1.00" {
		t.Errorf("what does not vary is %s", got)
	}
}
