package gen

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/protolimit/ratelimit"
	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

var algorithms = map[ratelimitpb.Rule_Algorithm]ratelimit.Algorithm{
	ratelimitpb.Rule_TOKEN_BUCKET:   ratelimit.TokenBucket,
	ratelimitpb.Rule_LEAKY_BUCKET:   ratelimit.LeakyBucket,
	ratelimitpb.Rule_FIXED_WINDOW:   ratelimit.FixedWindow,
	ratelimitpb.Rule_SLIDING_WINDOW: ratelimit.SlidingWindow,
	ratelimitpb.Rule_SLIDING_LOG:    ratelimit.SlidingLog,
}

var onUnavailable = map[ratelimitpb.Rule_OnUnavailable]ratelimit.OnUnavailable{
	ratelimitpb.Rule_LOCAL: ratelimit.Local,
	ratelimitpb.Rule_ALLOW: ratelimit.Allow,
	ratelimitpb.Rule_DENY:  ratelimit.Deny,
}

// rule reads a rule field by field, so that each wrong one is noted.
func (r *reader) rule(at place, stated *ratelimitpb.Rule) *rule {
	out := &rule{place: at}
	r.name(out, stated)
	r.unknownFields(out.place, stated)
	if stated.Algorithm != nil {
		a, ok := algorithms[stated.GetAlgorithm()]
		if !ok {
			r.add(out.place, "algorithm", enumText(stated.Algorithm), wantValue(stated.Algorithm, "TOKEN_BUCKET"))
		}
		out.Algorithm = a
	}
	r.rate(out, stated)
	r.burst(out, stated)
	for _, text := range stated.GetKey() {
		r.key(out, text)
	}
	if stated.Bucket != nil {
		r.bucket(out, stated.GetBucket())
	}
	if stated.OnUnavailable != nil {
		u, ok := onUnavailable[stated.GetOnUnavailable()]
		if !ok {
			r.add(out.place, "on_unavailable", enumText(stated.OnUnavailable), wantValue(stated.OnUnavailable, "LOCAL"))
		}
		out.OnUnavailable = u
	}
	return out
}

func (r *reader) name(out *rule, stated *ratelimitpb.Rule) {
	name := stated.GetName()
	want := probe(func(r *ratelimit.Rule) { r.Name = name })
	switch {
	case stated.Name == nil:
		r.add(out.place, "name", "missing", want)
	case want != "":
		r.add(out.place, "name", strconv.Quote(name), want)
	default:
		out.Name = name
		out.rule = "rule " + strconv.Quote(name)
	}
}

// rate reads the rate; the algorithm must be known.
func (r *reader) rate(out *rule, stated *ratelimitpb.Rule) {
	rate, err := ratelimit.ParseRate(stated.GetRate())
	switch {
	case stated.Rate == nil:
		r.add(out.place, "rate", "missing", err.Error())
	case err != nil:
		r.add(out.place, "rate", strconv.Quote(stated.GetRate()), err.Error())
	default:
		out.Rate = rate
		if want := probe(func(r *ratelimit.Rule) { r.Algorithm, r.Rate = out.Algorithm, rate }); want != "" {
			r.add(out.place, "rate", strconv.Quote(stated.GetRate()), want)
		}
	}
}

// burst reads the burst; the algorithm and the rate must be known.
func (r *reader) burst(out *rule, stated *ratelimitpb.Rule) {
	if stated.Burst == nil {
		return
	}
	burst := stated.GetBurst()
	want := probe(func(r *ratelimit.Rule) {
		r.Algorithm, r.Burst = out.Algorithm, burst
		if burst == 0 {
			r.Burst = -1 // in Go code 0 stands for none; here it was stated
		}
		if out.Rate.Window != 0 && r.Algorithm.HasBurst() {
			r.Rate = out.Rate
		}
	})
	if want != "" {
		r.add(out.place, "burst", strconv.FormatInt(burst, 10), want)
		return
	}
	out.Burst = burst
}

// key reads one key part.
func (r *reader) key(out *rule, text string) {
	part, err := ratelimit.ParseKeyPart(text)
	if err != nil {
		r.add(out.place, "key", strconv.Quote(text), err.Error())
	}
	for _, other := range out.parts {
		if err == nil && other.ok && other.Source == part.Source && other.Name == part.Name {
			r.add(out.place, "key", strconv.Quote(text), "want each part once")
			err = errors.New("repeated")
			break
		}
	}
	out.parts = append(out.parts, keyPart{KeyPart: part, text: text, ok: err == nil})
}

func (r *reader) bucket(out *rule, bucket string) {
	want := probe(func(r *ratelimit.Rule) {
		r.Bucket = bucket
		if bucket == "" {
			r.Bucket = "-" // in Go code "" stands for none; here it was stated
		}
	})
	if want != "" {
		r.add(out.place, "bucket", strconv.Quote(bucket), want)
		return
	}
	out.Bucket = bucket
}

// probe returns what the library wants of the fields that set sets, in a rule
// that has no other fault, or "".
func probe(set func(*ratelimit.Rule)) string {
	rule := ratelimit.Rule{Name: "probe", Rate: ratelimit.Rate{Count: 1, Window: time.Second}}
	set(&rule)
	if fault, ok := errors.AsType[*ratelimit.RuleError](rule.Check()); ok {
		return fault.Want
	}
	return ""
}

// enumText returns the name of an enum's value, or its number if it has none.
func enumText(e protoreflect.Enum) string {
	if v := e.Descriptor().Values().ByNumber(e.Number()); v != nil {
		return string(v.Name())
	}
	return strconv.Itoa(int(e.Number()))
}

// wantValue lists the values of an enum that may be written where e was.
func wantValue(e protoreflect.Enum, leftOut string) string {
	var names []string
	values := e.Descriptor().Values()
	for i := range values.Len() {
		if v := values.Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	want := "want one of " + strings.Join(names, ", ")
	if values.ByNumber(e.Number()) == nil {
		return want + ", or " + newEnough
	}
	return want + ", or leave it out for " + leftOut
}
