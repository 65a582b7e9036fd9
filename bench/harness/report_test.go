package harness

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// counting returns a contender that gives values one after the other.
func counting(name string, values ...float64) Contender {
	return Contender{Name: name, Sample: func() ([]float64, error) {
		v := values[0]
		values = append(values[1:], v)
		return []float64{v, math.NaN()}, nil
	}}
}

func fixed(contenders ...Contender) func(Options) ([]Contender, func(), error) {
	return func(Options) ([]Contender, func(), error) { return contenders, func() {}, nil }
}

func TestReport(t *testing.T) {
	e := &Experiment{
		Section: "fruit", Name: "apples", Metrics: []Metric{{"weight", "g"}, {"worms", ""}},
		Rows: []Row{
			{Label: "weight", Metric: "weight", Of: "ours", Against: "floor", Budget: AtMost(1.5)},
			{Label: "alone", Metric: "weight", Of: "ours", Budget: AtLeast(31)},
			{Label: "least", Metric: "weight", Of: "ours", Fold: Min},
			{Label: "unknown", Metric: "worms", Of: "ours", Budget: AtMost(1)},
		},
		Open: fixed(counting("ours", 15, 30, 60), counting("floor", 10, 20, 30), counting("theirs", 10, 40, 120)),
	}
	r, err := Run(e, Options{Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
| row     | budget       | figure         | middle half of the rounds | met | others                     |
| ------- | ------------ | -------------- | ------------------------- | --- | -------------------------- |
| weight  | ≤ 1.5× floor | 1.50× (30.0 g) | 1.50× to 1.75×            | yes | theirs 2×                  |
| alone   | ≥ 31 g       | 30.0 g         | 22.5 g to 45.0 g          | no  | floor 20.0 g, theirs 40.0 g |
| least   |              | 15.0 g         | 22.5 g to 45.0 g          |     | floor 10.0 g, theirs 10.0 g |
| unknown | ≤ 1          |                |  to                       | no  |                            |

Budgets that are missed: alone; unknown.

Medians, not divided:

|                   | ours | floor | theirs |
| ----------------- | ---- | ----- | ------ |
| apples: weight, g | 30.0 | 20.0  | 40.0   |
| apples: worms     |      |       |        |
`
	got := Report([]*Result{r})
	if squeeze(got) != squeeze(want) {
		t.Errorf("Report:\n%s\nwant:\n%s", got, want)
	}
}

// squeeze leaves the padding of tables out.
func squeeze(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "-", "")), " ")
}

func TestRunTakesTurns(t *testing.T) {
	var order []string
	contender := func(name string) Contender {
		return Contender{Name: name, Sample: func() ([]float64, error) {
			order = append(order, name)
			return []float64{1}, nil
		}}
	}
	e := &Experiment{Metrics: []Metric{{Name: "m"}}, Slices: 2, Open: fixed(contender("a"), contender("b"), contender("c"))}
	if _, err := Run(e, Options{Rounds: 2}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, ""), "abcbcacababc"; got != want {
		t.Errorf("order of samples = %s, want %s", got, want)
	}
}

func TestRunTakesAtMost(t *testing.T) {
	samples := 0
	c := Contender{Name: "c", Sample: func() ([]float64, error) {
		samples++
		return []float64{1}, nil
	}}
	e := &Experiment{Metrics: []Metric{{Name: "m"}}, Most: 2, Open: fixed(c)}
	for _, rounds := range []int{1, 5} {
		samples = 0
		if _, err := Run(e, Options{Rounds: rounds}); err != nil {
			t.Fatal(err)
		}
		if want := min(rounds, 2); samples != want {
			t.Errorf("%d rounds of at most 2 took %d samples, want %d", rounds, samples, want)
		}
	}
}

// Experiments of the same with one contender have a column for each metric.
func TestMediansByMetric(t *testing.T) {
	metrics := []Metric{{"weight", "g"}, {"worms", ""}}
	var results []*Result
	for i, name := range []string{"apples", "pears"} {
		r, err := Run(&Experiment{Name: name, Metrics: metrics, Open: fixed(counting("ours", float64(10*(i+1))))}, Options{Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	const want = `
|        | weight, g | worms |
| ------ | --------- | ----- |
| apples | 10.0      |       |
| pears  | 20.0      |       |
`
	if got := table(medians(results)); squeeze(got) != squeeze(want) {
		t.Errorf("medians:\n%s\nwant:\n%s", got, want)
	}
}

func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	fails := Contender{Name: "c", Sample: func() ([]float64, error) { return nil, broken }}
	e := &Experiment{Section: "s", Name: "e", Metrics: []Metric{{Name: "m"}}, Open: fixed(fails)}
	if _, err := Run(e, Options{Rounds: 1}); !errors.Is(err, broken) || err.Error() != "s/e: c: broken" {
		t.Errorf("Run = %v, want s/e: c: broken", err)
	}
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		q      float64
		values []float64
		want   float64
	}{
		{0.5, []float64{3, 1, 2}, 2},
		{0.5, []float64{4, 1, 2, 3}, 2.5},
		{0.25, []float64{1, 2, 3, 4, 5}, 2},
		{0, []float64{3, math.NaN(), 1}, 1},
		{1, []float64{3, 1}, 3},
	} {
		if got := quantile(tt.values, tt.q); got != tt.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", tt.values, tt.q, got, tt.want)
		}
	}
	if got := Median([]float64{math.NaN()}); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 2: "2", 1.234: "1.23", 12.34: "12.3", 20: "20.0", 123.4: "123", 0.005: "0.01", math.NaN(): ""} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestReplace(t *testing.T) {
	const page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
	got, err := Replace(page, "x", "new\n")
	if want := strings.Replace(page, "old", "new", 1); got != want || err != nil {
		t.Errorf("Replace = %q, %v, want %q", got, err, want)
	}
	if _, err := Replace(page, "y", ""); err == nil {
		t.Error("Replace of a section without markers: no error")
	}
}
