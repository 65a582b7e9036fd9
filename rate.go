package ratelimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The ranges of a [Rate].
const (
	// MaxCount is the largest count of a rate, and the largest burst.
	MaxCount = 1_000_000_000_000
	// MaxLogCount is the largest count of a SlidingLog rule, which keeps an
	// entry for each grant.
	MaxLogCount = 10_000
	// MinWindow and MaxWindow bound a rate's window, which is a whole number of
	// milliseconds.
	MinWindow = time.Millisecond
	MaxWindow = 366 * 24 * time.Hour
	// MaxPerSecond is the fastest rate.
	MaxPerSecond = 1_000_000_000
)

// A Rate is Count units of cost in each Window: {10, time.Second} is 10 a
// second. Count is 0 to [MaxCount], 0 refusing every call; Window is
// [MinWindow] to [MaxWindow], in whole milliseconds; their quotient is at most
// [MaxPerSecond]. The zero Rate is out of range.
type Rate struct {
	Count  int64
	Window time.Duration
}

// rateUnits are the units of a rate's window, the longest first, so that
// [Rate.String] finds the shortest form.
var rateUnits = [...]struct {
	name string
	size time.Duration
}{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

const rateForm = `COUNT/[N]UNIT with UNIT one of ms, s, m, h, d, w, such as "10/s" or "100/15m"`

// ParseRate reads a rate as options files and configuration state it:
// COUNT/[N]UNIT, where UNIT is one of ms, s, m, h, d (24 h) and w (7 d), and N,
// left out, is 1. "10/s", "100/15m", "5/100ms" and "1/30d" are rates. There are
// no spaces, signs, fractions, leading zeros, capital or long units.
//
// The error says what was wanted. It is made for a person who reads the value
// beside it, and does not repeat the value.
func ParseRate(s string) (Rate, error) {
	countText, window, found := strings.Cut(s, "/")
	if !found {
		return Rate{}, fmt.Errorf("want %s", rateForm)
	}
	count, ok := parseDigits(countText)
	if !ok {
		return Rate{}, fmt.Errorf("want %s", rateForm)
	}
	if count > MaxCount {
		return Rate{}, fmt.Errorf("want a COUNT of at most %d", int64(MaxCount))
	}
	digits := len(window) - len(strings.TrimLeft(window, "0123456789"))
	n := int64(1)
	if digits > 0 {
		if n, ok = parseDigits(window[:digits]); !ok || n == 0 {
			return Rate{}, fmt.Errorf("want %s", rateForm)
		}
	}
	for _, unit := range rateUnits {
		if window[digits:] != unit.name {
			continue
		}
		if n > int64(MaxWindow/unit.size) {
			return Rate{}, errors.New("want a window of 1ms to 366d")
		}
		r := Rate{Count: count, Window: time.Duration(n) * unit.size}
		return r, r.check()
	}
	return Rate{}, fmt.Errorf("want %s", rateForm)
}

// parseDigits reads a decimal number without sign or leading zeros. A number
// past int64 is read as the largest one, which every range here excludes.
func parseDigits(s string) (int64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
}

// check returns what was wanted if r is out of range.
func (r Rate) check() error {
	switch {
	case r.Count < 0 || r.Count > MaxCount:
		return fmt.Errorf("want a count of 0 to %d", int64(MaxCount))
	case r.Window < MinWindow || r.Window > MaxWindow:
		return errors.New("want a window of 1ms to 366d")
	case r.Window%time.Millisecond != 0:
		return errors.New("want a window of whole milliseconds")
	case r.Count/(MaxPerSecond/1000) > r.Window.Milliseconds(),
		r.Count/(MaxPerSecond/1000) == r.Window.Milliseconds() && r.Count%(MaxPerSecond/1000) != 0:
		return fmt.Errorf("want at most %d a second", MaxPerSecond)
	}
	return nil
}

// String returns r in the form that [ParseRate] reads, with the longest unit
// that divides the window: "10/s", "100/15m". A window of other than whole
// milliseconds is written as Go writes durations.
func (r Rate) String() string {
	count := strconv.FormatInt(r.Count, 10)
	for _, unit := range rateUnits {
		if r.Window > 0 && r.Window%unit.size == 0 {
			if n := int64(r.Window / unit.size); n > 1 {
				return count + "/" + strconv.FormatInt(n, 10) + unit.name
			}
			return count + "/" + unit.name
		}
	}
	return count + "/" + r.Window.String()
}
