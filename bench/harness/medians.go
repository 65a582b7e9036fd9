package harness

import (
	"slices"
	"strings"
)

// medians renders each metric of each experiment: a column for each contender, or
// where there is but one, with the same metrics in all experiments, a column for
// each metric.
func medians(results []*Result) [][]string {
	if sameAlone(results) {
		return mediansByMetric(results)
	}
	return mediansByContender(results)
}

// sameAlone tells whether all experiments measure the same of one contender.
func sameAlone(results []*Result) bool {
	first := results[0]
	for _, r := range results {
		if len(r.Contenders) != 1 || r.Contenders[0] != first.Contenders[0] || !slices.Equal(r.Experiment.Metrics, first.Experiment.Metrics) {
			return false
		}
	}
	return len(results) > 1
}

func mediansByMetric(results []*Result) [][]string {
	header := []string{""}
	for _, m := range results[0].Experiment.Metrics {
		header = append(header, m.title())
	}
	rows := [][]string{header}
	for _, r := range results {
		row := []string{r.Experiment.Name}
		for _, m := range r.Experiment.Metrics {
			row = append(row, number(Median(r.rounds(r.Contenders[0], m.Name))))
		}
		rows = append(rows, row)
	}
	return rows
}

func mediansByContender(results []*Result) [][]string {
	header := []string{""}
	for _, r := range results {
		for _, name := range r.Contenders {
			if !slices.Contains(header, name) {
				header = append(header, name)
			}
		}
	}
	rows := [][]string{header}
	for _, r := range results {
		for _, m := range r.Experiment.Metrics {
			row := []string{r.Experiment.Name + ": " + m.title()}
			for _, name := range header[1:] {
				row = append(row, number(Median(r.rounds(name, m.Name))))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// title is the metric's name and unit.
func (m Metric) title() string {
	return strings.TrimSuffix(m.Name+", "+m.Unit, ", ")
}
