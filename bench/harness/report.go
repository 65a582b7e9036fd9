package harness

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Report renders what was measured of one section, as Markdown: the rows beside
// their budgets, which of them miss theirs, and the medians as they were
// measured.
func Report(results []*Result) string {
	rows := [][]string{{"row", "budget", "figure", "middle half of the rounds", "met", "others"}}
	for _, r := range results {
		for i := range r.Experiment.Rows {
			rows = append(rows, r.row(&r.Experiment.Rows[i]))
		}
	}
	verdict := "Every budget is kept."
	if missed := missed(results); len(missed) > 0 {
		verdict = "Budgets that are missed: " + strings.Join(missed, "; ") + "."
	}
	return table(rows) + "\n" + verdict + "\n\nMedians, not divided:\n\n" + table(medians(results))
}

// missed returns the labels of the rows that do not keep their budget.
func missed(results []*Result) []string {
	var labels []string
	for _, r := range results {
		for i := range r.Experiment.Rows {
			row := &r.Experiment.Rows[i]
			if figure, _ := r.figure(row, row.Of); !row.Budget.Met(figure) {
				labels = append(labels, row.Label)
			}
		}
	}
	return labels
}

// figure returns a contender's figure in a row, and the values of the rounds
// that it was made of.
func (r *Result) figure(row *Row, contender string) (figure float64, rounds []float64) {
	rounds = r.rounds(contender, row.Metric)
	if row.Against != "" {
		rounds = ratios(rounds, r.rounds(row.Against, row.Metric))
	}
	if row.Fold != nil {
		return row.Fold(rounds), rounds
	}
	return Median(rounds), rounds
}

// row renders one line of a section's table.
func (r *Result) row(row *Row) []string {
	unit := r.Experiment.Metrics[r.Experiment.metric(row.Metric)].Unit
	show := func(v float64) string { return withUnit(v, unit) }
	if row.Against != "" {
		show = func(v float64) string { return number(v) + "×" }
	}
	figure, rounds := r.figure(row, row.Of)
	text := show(figure)
	if row.Against != "" {
		text += " (" + withUnit(Median(r.rounds(row.Of, row.Metric)), unit) + ")"
	}
	spread := show(quantile(rounds, 0.25)) + " to " + show(quantile(rounds, 0.75))
	var others []string
	for _, name := range r.Contenders {
		if name == row.Of || name == row.Against {
			continue
		}
		if other, _ := r.figure(row, name); !math.IsNaN(other) {
			others = append(others, name+" "+show(other))
		}
	}
	met := ""
	if row.Budget.side != 0 {
		met = "no"
		if row.Budget.Met(figure) {
			met = "yes"
		}
	}
	return []string{row.Label, row.budget(unit), text, spread, met, strings.Join(others, ", ")}
}

// budget renders a row's budget.
func (row *Row) budget(unit string) string {
	if row.Budget.side == 0 {
		return ""
	}
	text := "≤ "
	if row.Budget.side > 0 {
		text = "≥ "
	}
	bound := strconv.FormatFloat(row.Budget.bound, 'g', -1, 64)
	if row.Against != "" {
		return text + bound + "× " + row.Against
	}
	return strings.TrimSpace(text + bound + " " + unit)
}

// withUnit renders a value.
func withUnit(v float64, unit string) string {
	if unit == "" {
		return number(v)
	}
	return number(v) + " " + unit
}

// number renders a value with three digits that count, and nothing for NaN.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) && math.Abs(v) < 10 || math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// table renders rows as a Markdown table that reads in a terminal too.
func table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		for j, cell := range row {
			fmt.Fprintf(&b, "| %-*s ", widths[j], cell)
		}
		b.WriteString("|\n")
		if i == 0 {
			for _, width := range widths {
				b.WriteString("| " + strings.Repeat("-", max(width, 3)) + " ")
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
