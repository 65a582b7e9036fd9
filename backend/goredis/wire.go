package goredis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/protolimit/ratelimit"
)

// A batch is one call of take.lua: the requests that it decides, and how they
// are written. It is used again, so that a batch allocates little.
type batch struct {
	requests []*request
	keys     map[string]int
	limits   map[*ratelimit.Limit]int
	names    []*string // the keys, in order
	packed   []byte    // the limits, then the calls
	calls    []byte
	args     []any
}

func (b *batch) reset() {
	clear(b.requests)
	clear(b.names)
	clear(b.args)
	clear(b.keys)
	clear(b.limits)
	b.requests, b.names, b.args = b.requests[:0], b.names[:0], b.args[:0]
	b.packed, b.calls = b.packed[:0], b.calls[:0]
}

// add adds a request to the batch.
func (b *batch) add(r *request) {
	if b.keys == nil {
		b.keys, b.limits = map[string]int{}, map[*ratelimit.Limit]int{}
	}
	b.requests = append(b.requests, r)
	b.calls = binary.LittleEndian.AppendUint16(b.calls, uint16(len(r.buckets)))
	for i := range r.buckets {
		u := &r.buckets[i]
		key, ok := b.keys[u.key]
		if !ok {
			key = len(b.names)
			b.keys[u.key] = key
			b.names = append(b.names, &u.key)
		}
		limit, ok := b.limits[u.limit]
		if !ok {
			limit = len(b.limits)
			b.limits[u.limit] = limit
			b.packed = appendLimit(b.packed, u.limit)
		}
		b.calls = binary.LittleEndian.AppendUint16(b.calls, uint16(key))
		b.calls = binary.LittleEndian.AppendUint16(b.calls, uint16(limit))
		b.calls = appendDouble(b.calls, u.units)
	}
}

// arguments returns the command that calls the script by hash or in full; now
// is empty for the server's clock.
func (b *batch) arguments(s *script, full bool, now []byte) []any {
	b.args = append(b.args[:0], scriptName(full), scriptText(s, full), len(b.names))
	for _, name := range b.names {
		b.args = append(b.args, name)
	}
	b.args = append(b.args, b.packed, b.calls, now)
	return b.args
}

func scriptName(full bool) string {
	if full {
		return "eval"
	}
	return "evalsha"
}

func scriptText(s *script, full bool) string {
	if full {
		return s.source
	}
	return s.hash
}

// kinds are the numbers of the algorithms' states in common.lua.
var kinds = [...]int64{
	ratelimit.TokenBucket: 0, ratelimit.LeakyBucket: 0, ratelimit.FixedWindow: 1,
	ratelimit.SlidingWindow: 2, ratelimit.SlidingLog: 3,
}

// appendLimit appends a limit as read_limit of common.lua reads it.
func appendLimit(dst []byte, l *ratelimit.Limit) []byte {
	num, den := l.Drain()
	for _, n := range [...]int64{
		kinds[l.Algorithm()], l.Most(), int64(l.Shift()), int64(num / den), int64(num % den), int64(den), l.Window().Microseconds(),
	} {
		dst = appendDouble(dst, n)
	}
	return dst
}

// maxDouble is the largest whole number up to which doubles are exact.
const maxDouble = 1<<53 - 1

// appendDouble appends a number as a double, at most maxDouble either way.
func appendDouble(dst []byte, n int64) []byte {
	n = min(max(n, -maxDouble), maxDouble)
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(n)))
}

// What take.lua says of a call and of a charge.
const (
	callRefused = 0
	callGranted = 1
	callForeign = 2

	answerSize = 1 + 4*8
)

var errReply = errors.New("reply of the script is not what it returns")

// read gives the reply of take.lua to the requests of the batch.
func (b *batch) read(reply string) {
	now, ok := int64(0), len(reply) >= 8
	if ok {
		now, reply = double(reply), reply[8:]
	}
	for _, r := range b.requests {
		if ok {
			reply, ok = r.read(reply, now)
		}
		if !ok {
			r.err = bug(errReply)
		}
	}
}

// read reads the answer to the request from the head of reply, and returns the
// rest of it.
func (r *request) read(reply string, now int64) (rest string, ok bool) {
	if len(reply) == 0 {
		return "", false
	}
	state := reply[0]
	reply = reply[1:]
	if state == callForeign {
		r.err = bug(fmt.Errorf("WRONGTYPE a key of %q holds something else", r.buckets[0].limit.Bucket()))
		return reply, true
	}
	r.granted = state == callGranted
	for i := range r.buckets {
		if len(reply) < answerSize {
			return "", false
		}
		r.buckets[i].read(reply, now, r.granted)
		reply = reply[answerSize:]
	}
	return reply, true
}

func (b *bucket) read(reply string, now int64, granted bool) {
	v := ratelimit.Verdict{
		Allowed:    reply[0] == 0,
		Reason:     ratelimit.Reason(reply[0]),
		Remaining:  double(reply[1:]),
		ResetAfter: micros(double(reply[17:])),
	}
	if retry := double(reply[9:]); retry < 0 {
		v.RetryAfter = ratelimit.Never
	} else {
		v.RetryAfter = micros(retry)
	}
	if granted && b.units > 0 {
		v.Receipt = ratelimit.Receipt{At: now, Entry: uint64(double(reply[25:]))}
	}
	b.verdict = v
}

// double reads the double at the head of s.
func double(s string) int64 {
	_ = s[7]
	bits := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return int64(math.Float64frombits(bits))
}

func micros(n int64) time.Duration {
	return min(time.Duration(n), ratelimit.MaxWait/time.Microsecond) * time.Microsecond
}
