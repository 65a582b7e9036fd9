package gen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/protolimit/ratelimit"
)

// meetings finds out which rules meet each method of s, and checks what they
// must be together.
func (r *reader) meetings(s *service) {
	meets := map[*rule][]*met{}
	for _, m := range s.methods {
		for _, rule := range rulesOf(s, m) {
			met := &met{rule: rule, method: m, paths: make([]*path, len(rule.parts))}
			m.met = append(m.met, met)
			meets[rule] = append(meets[rule], met)
		}
		r.unmet(m)
		r.count(m)
		r.cover(m)
		r.coverTogether(m)
		for _, rule := range m.own {
			r.fields(rule, meets[rule])
		}
	}
	r.distinct(s)
	for _, rule := range slices.Concat(s.shared, s.defaults) {
		r.fields(rule, meets[rule])
		r.idle(s, rule, meets[rule])
	}
}

// rulesOf returns the rules that meet a method, in the order of the table.
func rulesOf(s *service, m *method) []*rule {
	switch {
	case m.exempt:
		return nil
	case len(m.own) > 0:
		return slices.Concat(m.own, s.shared)
	}
	return slices.Concat(s.defaults, s.shared)
}

// unmet notes what is stated for a method that no rule meets: it would do
// nothing.
func (r *reader) unmet(m *method) {
	if len(m.met) > 0 || m.exempt {
		return
	}
	const want = "want a rule that meets the method"
	if m.costAt != nil {
		r.add(m.costAt.place, "cost", m.costAt.value, want)
	}
	if m.refundAt != nil {
		r.add(m.refundAt.place, "refund_on", m.refundAt.value, want)
	}
}

// idle notes a rule of a service that meets none of its methods: it would limit
// nothing. A service that has no method yet may state its rules already.
func (r *reader) idle(s *service, rule *rule, meets []*met) {
	if len(meets) > 0 || len(s.methods) == 0 {
		return
	}
	want := "want a method that the rule meets: each is exempt"
	if rule.Scope != ratelimit.ScopeService {
		want += " or states rules of its own"
	}
	r.add(rule.place, "method", "missing", want)
}

func (r *reader) count(m *method) {
	if n := len(m.met); n > ratelimit.MaxRules {
		r.add(m.place, "rules", strconv.Itoa(n), fmt.Sprintf("want at most %d that meet on one method", ratelimit.MaxRules))
	}
}

// cover notes rules that can never grant the constant cost of a method.
func (r *reader) cover(m *method) {
	for _, met := range m.met {
		if met.Rate.Window == 0 {
			continue // the rate is wrong
		}
		if most := met.Most(); m.cost.Units > most && most > 0 {
			at := m.costAt.place
			at.rule = met.place.rule
			r.add(at, "cost", m.costAt.value, fmt.Sprintf("want at most %d, the most that the rule can grant at once", most))
		}
	}
}

// coverTogether notes rules that charge one bucket more in each call than it can
// ever grant: charges of rules that share a bucket and have the same key add up.
func (r *reader) coverTogether(m *method) {
	cost := max(m.cost.Units, 1) // the least, if it is a field's
	for _, met := range m.met {
		share, last := together(m.met, met)
		most, n := met.Most(), int64(len(share))
		if !last || n < 2 || met.Rate.Window == 0 || most == 0 || cost > most || cost*n <= most {
			continue
		}
		rules := strings.Join(share, " and ")
		if at := m.costAt; at != nil && m.costPath == nil && most >= n {
			r.add(at.place, "cost", at.value, fmt.Sprintf(
				"want at most %d: %s charge bucket %q together, which can grant %d at once", most/n, rules, met.Bucket, most))
			continue
		}
		r.add(met.place, "bucket", strconv.Quote(met.Bucket), fmt.Sprintf(
			"want another one: on %s %s charge it together, and it can grant %d at once", m.name, rules, most))
	}
}

// together names the rules that charge the same bucket as use in each call, and
// tells whether use is the last of them.
func together(all []*met, use *met) (share []string, last bool) {
	if use.Bucket == "" {
		return nil, false
	}
	same := func(a, b keyPart) bool { return a.ok && b.ok && a.Source == b.Source && a.Name == b.Name }
	for _, other := range all {
		if other.Bucket == use.Bucket && other.Algorithm == use.Algorithm && slices.EqualFunc(other.parts, use.parts, same) {
			share = append(share, other.place.rule)
			last = other == use
		}
	}
	return share, last
}

// distinct notes rules of one name that meet on one method, each once.
func (r *reader) distinct(s *service) {
	noted := map[*rule]bool{}
	for _, m := range s.methods {
		for i, later := range m.met {
			first := slices.IndexFunc(m.met[:i], func(o *met) bool { return o.Name != "" && o.Name == later.Name })
			if first < 0 {
				continue
			}
			one, other := later.rule, m.met[first].rule
			if one.Scope != other.Scope {
				// The service's rule meets other methods too, so the name to
				// change is the one that stands beside it.
				one, other = other, one
			}
			if !noted[one] {
				noted[one] = true
				r.add(one.place, "name", strconv.Quote(one.Name), fmt.Sprintf(
					"want each name once among the rules that meet on one method: on %s the rule of %s has it too", m.name, other.position()))
			}
		}
	}
}

// fields finds the fields that a rule's key needs in the request of each method
// that the rule meets.
func (r *reader) fields(rule *rule, meets []*met) {
	for i, part := range rule.parts {
		if !part.ok || part.Source != ratelimit.SourceField {
			continue
		}
		var first misstep
		var lack []*method
		for _, met := range meets {
			p, wrong := keyPath(met.method.proto, part.Name)
			met.paths[i] = p
			if p == nil {
				if lack == nil {
					first = wrong
				}
				lack = append(lack, met.method)
			}
		}
		switch {
		case lack == nil:
		case lack[0].name == rule.name: // the method's own rule
			r.add(rule.place, "key", strconv.Quote(part.text), first.String())
		default:
			r.add(rule.place, "key", strconv.Quote(part.text), wantEverywhere(first, lack))
		}
	}
}

// wantEverywhere tells that requests of some methods lack the field of a rule of
// their service.
func wantEverywhere(first misstep, lack []*method) string {
	want := fmt.Sprintf("want a field in the request of every method that the rule meets, and exempt: true on the others: on %s, %s",
		lack[0].name, first.why)
	switch n := len(lack) - 1; n {
	case 0:
	case 1:
		want += "; on " + lack[1].name + " neither"
	default:
		want += fmt.Sprintf("; on %d more neither", n)
	}
	return want
}
