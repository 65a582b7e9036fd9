package goredis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/protolimit/ratelimit"
)

// maxBuckets is how many buckets a batch may have: a script has room for so many
// on Lua's stack.
const maxBuckets = 900

// A batch is one call of a script: the requests that it decides, and how they are
// written. It is used again, so that a batch allocates little.
type batch struct {
	slot     int
	script   *script
	requests []*request
	buckets  int
	places   map[string]int           // of each key, counted from 0
	limits   map[*ratelimit.Limit]int // where each begins in the list
	strings  []*string                // the keys that hold strings, in order
	logs     []*string                // the keys that hold logs
	packed   []byte                   // the limits
	calls    []byte
	args     []any
}

func newBatch() *batch {
	return &batch{places: map[string]int{}, limits: map[*ratelimit.Limit]int{}}
}

func (b *batch) reset() {
	clear(b.requests)
	clear(b.strings)
	clear(b.logs)
	clear(b.args)
	clear(b.places)
	clear(b.limits)
	b.requests, b.strings, b.logs, b.args = b.requests[:0], b.strings[:0], b.logs[:0], b.args[:0]
	b.packed, b.calls, b.buckets = b.packed[:0], b.calls[:0], 0
}

// add adds a request to the batch.
func (b *batch) add(r *request) {
	b.requests = append(b.requests, r)
	b.buckets += len(r.buckets)
	for i := range r.buckets {
		u := &r.buckets[i]
		if _, ok := b.places[u.key]; ok {
			continue
		}
		list := &b.strings
		if isLog(u.limit) {
			list = &b.logs
		}
		b.places[u.key] = len(*list)
		*list = append(*list, &u.key)
	}
}

// arguments returns the command that calls the script by hash or in full; now
// is empty for the server's clock.
func (b *batch) arguments(full bool, now []byte) []any {
	b.args = append(b.args[:0], scriptName(full), scriptText(b.script, full), len(b.strings)+len(b.logs))
	for _, key := range b.strings {
		b.args = append(b.args, key)
	}
	for _, key := range b.logs {
		b.args = append(b.args, key)
	}
	switch b.script {
	case bucketScript:
		b.packBucket()
		b.args = append(b.args, append(b.calls, now...))
	case bucketsScript:
		b.packBuckets()
		b.args = append(b.args, b.calls, now)
	default:
		b.pack()
		b.args = append(b.args, b.packed, b.calls, now)
	}
	return b.args
}

// packBucket writes the only charge for bucket.lua.
func (b *batch) packBucket() {
	u := &b.requests[0].buckets[0]
	b.calls = appendBucket(appendDouble(b.calls[:0], u.units), u.limit)
}

// appendBucket appends a limit as bucket.lua and buckets.lua have it.
func appendBucket(dst []byte, l *ratelimit.Limit) []byte {
	num, den := l.Drain()
	for _, n := range [...]int64{l.Most(), 1 << l.Shift(), int64(num), int64(den)} {
		dst = appendDouble(dst, n)
	}
	return dst
}

// packBuckets writes the calls for buckets.lua.
func (b *batch) packBuckets() {
	b.calls = b.calls[:0]
	for _, r := range b.requests {
		for i := range r.buckets {
			u := &r.buckets[i]
			more := int64(0)
			if i < len(r.buckets)-1 {
				more = 1
			}
			if r.dry {
				more += 2
			}
			for _, n := range [...]int64{int64(1 + b.places[u.key]), more, u.units} {
				b.calls = appendDouble(b.calls, n)
			}
			b.calls = appendBucket(b.calls, u.limit)
		}
	}
}

// pack writes the limits and the calls for take.lua, once all keys are known:
// strings come before logs.
func (b *batch) pack() {
	b.packed = b.packed[:0]
	clear(b.limits)
	b.calls = appendDouble(b.calls[:0], int64(len(b.strings)))
	for _, r := range b.requests {
		count := int64(len(r.buckets))
		if r.dry {
			count = -count
		}
		b.calls = appendDouble(b.calls, count)
		for i := range r.buckets {
			u := &r.buckets[i]
			limit, ok := b.limits[u.limit]
			if !ok {
				limit = len(b.packed) / 8
				b.limits[u.limit] = limit
				b.packed = appendLimit(b.packed, u.limit)
			}
			key := 1 + b.places[u.key]
			if isLog(u.limit) {
				key += len(b.strings)
			}
			b.calls = appendDouble(b.calls, int64(key))
			b.calls = appendDouble(b.calls, int64(limit))
			b.calls = appendDouble(b.calls, u.units)
		}
	}
}

func isLog(l *ratelimit.Limit) bool { return l.Algorithm() == ratelimit.SlidingLog }

// script returns the script that decides the request.
func (r *request) script() *script {
	if r.large {
		return takeScript
	}
	for i := range r.buckets {
		l := r.buckets[i].limit
		if num, _ := l.Drain(); !l.Algorithm().HasBurst() || l.Most() == 0 || num > maxDouble {
			return takeScript
		}
	}
	return bucketsScript
}

// choose has the batch decided by the smallest script that can.
func (b *batch) choose() {
	if r := b.requests[0]; b.script == bucketsScript && b.buckets == 1 && !r.dry {
		b.script = bucketScript
	}
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

// appendLimit appends a limit as common.lua has it.
func appendLimit(dst []byte, l *ratelimit.Limit) []byte {
	num, den := l.Drain()
	for _, n := range [...]int64{
		kinds[l.Algorithm()], l.Most(), 1 << l.Shift(), int64(num), int64(den), int64(num / den), int64(num % den), l.Window().Microseconds(),
	} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(n)))
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

var errReply = errors.New("reply of the script is not what it returns")

// read gives the reply of the script to the requests of the batch.
func (b *batch) read(reply string) {
	var ok bool
	switch b.script {
	case bucketScript:
		ok = b.requests[0].readState(reply)
	case bucketsScript:
		ok = b.readAll(reply, (*request).readStates)
	default:
		ok = b.readAll(reply, (*request).readVerdicts)
	}
	if !ok {
		b.fail(bug(errReply))
	}
}

// readAll reads a reply that begins with the server's time, with what reads one
// request of it and returns the rest.
func (b *batch) readAll(reply string, read func(r *request, reply string, now int64) (string, bool)) (ok bool) {
	if len(reply) < 8 {
		return false
	}
	now, reply := double(reply), reply[8:]
	for _, r := range b.requests {
		if reply, ok = read(r, reply, now); !ok {
			return false
		}
	}
	return reply == ""
}

// What take.lua says of a charge: the reason in two bits, and what became of the
// call.
const (
	reasonBits  = 3
	callCharged = 4
	callForeign = 8

	answerSize = 1 + 4*8
)

// readVerdicts reads what take.lua says of the request from the head of reply,
// and returns the rest.
func (r *request) readVerdicts(reply string, now int64) (rest string, ok bool) {
	if len(reply) < len(r.buckets)*answerSize {
		return "", false
	}
	r.granted = reply[0]&callCharged != 0
	for i := range r.buckets {
		b := &r.buckets[i]
		if reply[0]&callForeign != 0 && reply[0]&reasonBits != 0 {
			r.err = errForeign(b.limit)
		}
		b.verdict = readVerdict(reply)
		if r.granted && b.units > 0 {
			b.verdict.Receipt = ratelimit.Receipt{At: now, Entry: uint64(double(reply[25:]))}
		}
		reply = reply[answerSize:]
	}
	return reply, true
}

func errForeign(l *ratelimit.Limit) error {
	return bug(fmt.Errorf("WRONGTYPE a key of %v holds something else", l))
}

// readVerdict reads an answer from the head of reply.
func readVerdict(reply string) ratelimit.Verdict {
	v := ratelimit.Verdict{
		Reason:     ratelimit.Reason(reply[0] & reasonBits),
		Remaining:  double(reply[1:]),
		RetryAfter: ratelimit.Never,
		ResetAfter: micros(double(reply[17:])),
	}
	v.Allowed = v.Reason == ratelimit.ReasonNone
	if retry := double(reply[9:]); retry >= 0 {
		v.RetryAfter = micros(retry)
	}
	return v
}

// double reads the double at the head of s.
func double(s string) int64 {
	_ = s[7]
	bits := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return int64(math.Float64frombits(bits))
}

// micros returns n µs, at most the longest wait that is told.
func micros(n int64) time.Duration {
	return time.Duration(min(n, ratelimit.MaxWait.Microseconds()) * 1000)
}
