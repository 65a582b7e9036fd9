package gen

import (
	"slices"

	"google.golang.org/protobuf/compiler/protogen"

	"github.com/protolimit/ratelimit"
)

// A file is what a .proto file says about limits.
type file struct {
	proto    *protogen.File
	path     string
	lines    positions
	imports  map[string]bool // paths of all files that it imports, and these, and so on
	services []*service
}

// A service is what a service says about limits.
type service struct {
	proto *protogen.Service
	place
	shared   []*rule // of (ratelimit.service_rule)
	defaults []*rule // of (ratelimit.default_rule)
	methods  []*method
	function string // that returns its table; "" if it has none
}

// A method is what a method says about limits, and what meets it.
type method struct {
	proto *protogen.Method
	place
	own      []*rule // of (ratelimit.rule)
	met      []*met  // what each call is charged against
	cost     ratelimit.Cost
	costPath *path      // if the cost is a field
	costAt   *statement // nil if no cost is stated
	refundOn []ratelimit.Code
	refundAt *statement // nil if no code is stated
	exempt   bool
}

// A statement is where a value stands in an option.
type statement struct {
	place
	value string // as a fault shows it
}

// A rule is a rule as it is stated. The fields that were stated wrongly are
// zero.
type rule struct {
	place
	ratelimit.Rule
	parts []keyPart
}

// A keyPart is one key of a rule as it is stated; ok is false if it is wrong.
type keyPart struct {
	ratelimit.KeyPart
	text string
	ok   bool
}

// A met is a rule where it meets a method, whose request has the fields.
type met struct {
	*rule
	method *method
	paths  []*path // of each key part; nil for those that are no field, or wrong
}

// limits tells whether s has a table: whether it states a rule, or frees a
// method of rules that a server may have for all methods.
func (s *service) limits() bool {
	if len(s.shared) > 0 || len(s.defaults) > 0 {
		return true
	}
	for _, m := range s.methods {
		if len(m.own) > 0 || m.exempt {
			return true
		}
	}
	return false
}

// limits tells whether any service of f has a table.
func (f *file) limits() bool {
	return slices.ContainsFunc(f.services, (*service).limits)
}
