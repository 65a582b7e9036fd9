package gen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/protolimit/ratelimit"
)

// checkBuckets notes rules that share a bucket with another one of the run and
// do not agree with it. What the run does not see, [ratelimit.Merge] checks.
func checkBuckets(files []*file, found *faults) {
	first := map[string]*met{}
	noted := map[*rule]bool{}
	for _, f := range files {
		for _, s := range f.services {
			for _, m := range s.methods {
				for _, use := range m.met {
					if use.Bucket == "" && use.Scope != ratelimit.ScopeService || noted[use.rule] || !use.usable() {
						continue
					}
					bucket := ratelimit.BucketName(fullMethod(m), &use.Rule)
					if first[bucket] == nil {
						first[bucket] = use
						continue
					}
					noted[use.rule] = checkAgree(bucket, first[bucket], use, found)
				}
			}
		}
	}
}

// usable tells whether all that a bucket depends on was stated rightly.
func (m *met) usable() bool {
	for i, part := range m.parts {
		if !part.ok || part.Source == ratelimit.SourceField && m.paths[i] == nil {
			return false
		}
	}
	return m.Rate.Window != 0
}

// checkAgree notes the first thing in which a rule does not agree with the one
// that used the bucket before, and tells whether there is one.
func checkAgree(bucket string, first, use *met, found *faults) bool {
	disagree := func(field, value, want string) bool {
		if use.Scope == ratelimit.ScopeService {
			value += " on " + use.method.name
		}
		found.add(use.place, field, value, fmt.Sprintf("want %s, as rule %q on %s (%s), which shares bucket %q",
			want, first.Name, first.method.name, first.position(), bucket))
		return true
	}
	switch {
	case first.Algorithm != use.Algorithm:
		return disagree("algorithm", use.Algorithm.String(), first.Algorithm.String())
	case first.Rate != use.Rate:
		return disagree("rate", strconv.Quote(use.Rate.String()), strconv.Quote(first.Rate.String()))
	case first.Most() != use.Most():
		return disagree("burst", strconv.FormatInt(use.Most(), 10), strconv.FormatInt(first.Most(), 10))
	case !slices.Equal(first.kinds(), use.kinds()):
		return disagree("key", "["+strings.Join(use.kinds(), ", ")+"]", "parts of the kinds ["+strings.Join(first.kinds(), ", ")+"]")
	}
	return false
}

// kinds returns the source of each key part, and the class of fields.
func (m *met) kinds() []string {
	classes := [...]string{
		ratelimit.ClassInteger: "integer field",
		ratelimit.ClassEnum:    "enum field",
		ratelimit.ClassBool:    "bool field",
		ratelimit.ClassText:    "text field",
	}
	var kinds []string
	for i, part := range m.parts {
		if m.paths[i] != nil {
			kinds = append(kinds, classes[m.paths[i].class])
			continue
		}
		kind, _, _ := strings.Cut(part.String(), ":")
		kinds = append(kinds, kind)
	}
	return kinds
}

// fullMethod returns a method's name as gRPC writes it.
func fullMethod(m *method) string {
	return fmt.Sprintf("/%s/%s", m.proto.Parent.Desc.FullName(), m.proto.Desc.Name())
}
