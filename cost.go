package ratelimit

import (
	"fmt"
	"math"
	"strings"
)

// MaxCost is the largest cost of one call.
const MaxCost = math.MaxInt32

// A Cost is what a call of a method costs, charged to each of its rules. The
// zero value costs 1.
type Cost struct {
	// Units is a constant cost, 1 to [MaxCost]; 0 stands for 1.
	Units int64
	// Path is the field that holds the cost, for messages; empty for a constant.
	Path string
	// Field reads the cost from the request; nil for a constant. A value below
	// 1 counts as 1, above MaxCost as that. It is safe for concurrent use.
	Field func(request any) int64
}

// ParseCost reads a cost as the options file spells it: a number, "1" to
// "2147483647", or "field:PATH", of which it returns the path alone. The error
// says what was wanted and does not repeat s.
func ParseCost(s string) (Cost, error) {
	if path, ok := strings.CutPrefix(s, "field:"); ok {
		return Cost{Path: path}, checkPath(path)
	}
	n, ok := parseDigits(s)
	if !ok || n < 1 || n > MaxCost {
		return Cost{}, fmt.Errorf("want a number of 1 to %d, or field:PATH", MaxCost)
	}
	return Cost{Units: n}, nil
}

// of returns what a call with this request costs.
func (c *Cost) of(request any) int64 {
	if c.Field != nil {
		return min(max(c.Field(request), 1), MaxCost)
	}
	return max(c.Units, 1)
}
