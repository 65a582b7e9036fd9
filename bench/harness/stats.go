package harness

import (
	"math"
	"slices"
)

// Median returns the middle of values, ignoring NaN; NaN if there is none.
func Median(values []float64) float64 { return quantile(values, 0.5) }

// Min returns the least of values, ignoring NaN; NaN if there is none.
func Min(values []float64) float64 { return quantile(values, 0) }

// Max returns the largest of values, ignoring NaN; NaN if there is none.
func Max(values []float64) float64 { return quantile(values, 1) }

// quantile returns the value below which a share q of values lies, between two
// of them by their distance.
func quantile(values []float64, q float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(sorted) == 0 {
		return math.NaN()
	}
	slices.Sort(sorted)
	at := q * float64(len(sorted)-1)
	below := int(at)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}

// ratios divides a by b, round by round.
func ratios(a, b []float64) []float64 {
	r := make([]float64, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}
