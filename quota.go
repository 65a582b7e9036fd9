package ratelimit

import (
	"strconv"
	"strings"
	"time"
)

// Policy returns the value of the RateLimit-Policy field of
// draft-ietf-httpapi-ratelimit-headers-11 for the call's method: each rule's
// name, its count as quota, and its window in seconds, which is left out where
// it is not whole seconds.
//
//	"burst";q=10;w=1, "daily";q=1000;w=86400
//
// It is "" for a method without rules. It does not depend on the call.
func (d *Decision) Policy() string {
	if d.plan == nil {
		return ""
	}
	return d.plan.policy
}

// Quota returns the value of the RateLimit field of the same draft for the rule
// that binds: the units that are left, and the seconds, rounded up, until they
// are all there again; or, where that rule refused the call and a wait will help,
// until it would pass.
//
//	"daily";r=412;t=31000
//
// It is "" if nothing was decided.
func (d *Decision) Quota() string {
	if d.Binding < 0 {
		return ""
	}
	v := &d.Verdicts[d.Binding]
	wait := v.ResetAfter
	if !v.Allowed && v.RetryAfter != Never {
		wait = v.RetryAfter
	}
	var buf [128]byte
	b := append(buf[:0], '"')
	b = append(b, d.Rules[d.Binding].Name...)
	b = append(b, `";r=`...)
	b = strconv.AppendInt(b, v.Remaining, 10)
	b = append(b, ";t="...)
	b = strconv.AppendInt(b, ceilSeconds(wait), 10)
	return string(b)
}

func formatPolicy(rules []Rule) string {
	var b strings.Builder
	for i := range rules {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(rules[i].Name))
		b.WriteString(";q=" + strconv.FormatInt(rules[i].Rate.Count, 10))
		if w := rules[i].Rate.Window; w%time.Second == 0 {
			b.WriteString(";w=" + strconv.FormatInt(int64(w/time.Second), 10))
		}
	}
	return b.String()
}

// ceilSeconds returns whole seconds, rounded up.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
