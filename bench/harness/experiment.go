// Package harness measures contenders side by side in one process, and reports
// what it found as ratios beside their budgets.
//
// An [Experiment] is a set of contenders that are measured in turn, round after
// round, so that whatever else the machine does meets all of them. A [Row] reads
// one figure from it and judges it. Experiments belong to a section, which is
// one table of the report.
package harness

import (
	"math"
	"time"
)

// Options say how much is measured.
type Options struct {
	// Rounds is how many rounds each experiment takes, 1 or more.
	Rounds int
	// Keys is the size of the large key sets.
	Keys int
	// Rest is how long rivals' keys go idle, and longer than it takes to insert
	// all of them.
	Rest time.Duration
	// Hot and Cold are the slices for state in the cache and for large state.
	Hot, Cold Slice
	// Busy is the slice of callers of a server.
	Busy time.Duration
	// Phase is each of three times: callers of a server that is well, that fails,
	// and that is well again.
	Phase time.Duration
}

// An Experiment compares contenders.
type Experiment struct {
	// Section is the table that the rows belong to, and Name tells the experiment
	// from others of it.
	Section, Name string
	// Metrics are what each sample of a contender measures, in order.
	Metrics []Metric
	// Slices is how many samples of each contender, taken in turn, make a
	// round's figure, which is their median. 0 stands for 1.
	Slices int
	// Most is how many rounds the experiment takes at most; 0 stands for as many as
	// are asked for.
	Most int
	// Rows are what the report tells of the experiment.
	Rows []Row
	// Open makes the contenders, and what frees them.
	Open func(Options) (contenders []Contender, done func(), err error)
}

// A Metric is one thing that is measured of every contender.
type Metric struct {
	Name string
	Unit string // "ns", "bytes"; empty for a plain number
}

// A Contender is one of the things that an experiment compares.
type Contender struct {
	Name string
	// Sample measures once, a value for each metric of the experiment. A metric
	// that the contender does not have is NaN.
	Sample func() ([]float64, error)
}

// A Row is one line of a section's table.
type Row struct {
	Label string
	// Metric names the experiment's metric that the row reads.
	Metric string
	// Of names the contender that is judged. The others are shown beside it.
	Of string
	// Against names the contender whose value divides all others, round by
	// round. Empty, the values are shown as they are.
	Against string
	// Budget is what the figure may be; the zero Budget is none.
	Budget Budget
	// Fold makes one figure of all rounds; nil stands for [Median].
	Fold func([]float64) float64
}

// A Budget bounds a figure from one side.
type Budget struct {
	bound float64
	side  int // -1: at most; 1: at least; 0: none
}

// AtMost is the budget of a figure that is better if smaller.
func AtMost(bound float64) Budget { return Budget{bound, -1} }

// AtLeast is the budget of a figure that is better if larger.
func AtLeast(bound float64) Budget { return Budget{bound, 1} }

// ID is what -run matches: the section, a slash, the name.
func (e *Experiment) ID() string { return e.Section + "/" + e.Name }

// Met tells whether a figure keeps the budget. None is always kept.
func (b Budget) Met(figure float64) bool {
	switch b.side {
	case -1:
		return figure <= b.bound
	case 1:
		return figure >= b.bound
	}
	return !math.IsNaN(figure)
}
