package gen

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A place is where an annotation stands, as a fault names it.
type place struct {
	path string // of the .proto file
	line int    // from 1; 0 if the descriptor does not tell
	name string // "Payments", or "Payments.Charge"
	rule string // `rule "burst"`, or "" if the place is no rule
}

// at returns the place of a line of the same element.
func (p place) at(line int) place {
	p.line = line
	return p
}

// position returns "payments.proto:14".
func (p place) position() string {
	if p.line == 0 {
		return p.path
	}
	return fmt.Sprintf("%s:%d", p.path, p.line)
}

func (p place) String() string {
	parts := []string{p.position(), p.name}
	if p.rule != "" {
		parts = append(parts, p.rule)
	}
	return strings.Join(parts, ": ")
}

// A fault is one mistake in one annotation.
type fault struct {
	place
	text string // "burst is 0, want 1 to 1000000000000"
}

// faults collects the faults of a run.
type faults struct{ list []fault }

// add notes that a field has a value where another was wanted. The value is
// quoted by the caller if it is text; want begins with "want" and tells the
// remedy.
func (f *faults) add(at place, field, value, want string) {
	f.list = append(f.list, fault{at, fmt.Sprintf("%s is %s, %s", field, value, want)})
}

// err returns all faults by file and line, one a line, or nil.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line))
	})
	lines := make([]string, len(f.list))
	for i, fault := range f.list {
		lines[i] = fault.String() + ": " + fault.text
	}
	return errors.New(strings.Join(slices.Compact(lines), "\n"))
}
