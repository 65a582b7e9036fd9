package gen

import (
	"slices"
	"strings"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// requireAll notes each method that no rule meets and that is not exempt, with
// the lines to paste.
func requireAll(files []*file, found *faults) {
	lines := []string{
		`option (ratelimit.rule) = { name: "calls" rate: "10/s" key: "principal" };`,
		`option (ratelimit.method) = { exempt: true };`,
	}
	for _, f := range files {
		if !f.proto.Generate {
			continue
		}
		for _, s := range f.services {
			for _, m := range s.methods {
				if len(m.met) == 0 && !m.exempt {
					found.add(m.place, "rule", "missing", "want one of these lines in the method's braces"+
						importHint(f)+" (require=all):\n    "+strings.Join(lines, "\n    "))
				}
			}
		}
	}
}

// importHint tells to import the options, unless the file does.
func importHint(f *file) string {
	name := ratelimitpb.File_ratelimit_options_proto.Path()
	p := f.proto.Proto
	if slices.Contains(p.GetDependency(), name) || slices.Contains(p.GetOptionDependency(), name) {
		return ""
	}
	return `, and import "` + name + `"`
}
