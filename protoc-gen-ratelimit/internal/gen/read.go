package gen

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoimpl"

	"github.com/protolimit/ratelimit"
	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// A reader reads the annotations of one file.
type reader struct {
	*faults
	newer newer
	file  *file
}

// readFile returns what f says about limits, and notes what is wrong with it.
func readFile(f *protogen.File, newer newer, found *faults) *file {
	r := reader{found, newer, &file{
		proto: f, path: f.Desc.Path(), lines: newPositions(f), imports: map[string]bool{},
	}}
	addImports(r.file.imports, f.Desc)
	for _, s := range f.Services {
		r.file.services = append(r.file.services, r.service(s))
	}
	return r.file
}

// addImports adds the paths of all files that f depends on.
func addImports(paths map[string]bool, f protoreflect.FileDescriptor) {
	imports := f.Imports()
	for i := range imports.Len() {
		if path := imports.Get(i).Path(); !paths[path] {
			paths[path] = true
			addImports(paths, imports.Get(i))
		}
	}
}

func (r *reader) service(p *protogen.Service) *service {
	s := &service{proto: p, place: place{path: r.file.path, name: string(p.Desc.Name()), line: r.file.lines.service(p)}}
	options := p.Desc.Options()
	r.unknownOptions(s.place, options)
	line := func(option ...int32) int { return r.file.lines.service(p, option...) }
	s.shared = r.rules(s.place, options, ratelimitpb.E_ServiceRule, line)
	s.defaults = r.rules(s.place, options, ratelimitpb.E_DefaultRule, line)
	for _, rule := range s.shared {
		rule.Scope = ratelimit.ScopeService
	}
	for _, m := range p.Methods {
		s.methods = append(s.methods, r.method(m))
	}
	r.meetings(s)
	return s
}

func (r *reader) method(p *protogen.Method) *method {
	name := fmt.Sprintf("%s.%s", p.Parent.Desc.Name(), p.Desc.Name())
	m := &method{proto: p, place: place{path: r.file.path, name: name, line: r.file.lines.method(p)}}
	options := p.Desc.Options()
	r.unknownOptions(m.place, options)
	line := func(option ...int32) int { return r.file.lines.method(p, option...) }
	m.own = r.rules(m.place, options, ratelimitpb.E_Rule, line)
	if stated, ok := proto.GetExtension(options, ratelimitpb.E_Method).(*ratelimitpb.Method); ok && stated != nil {
		r.methodOption(m, stated)
	}
	return m
}

// rules reads the statements of one repeated option. line finds the line of an
// option by its path.
func (r *reader) rules(at place, options proto.Message, option *protoimpl.ExtensionInfo, line func(...int32) int) []*rule {
	var rules []*rule
	number := int32(option.TypeDescriptor().Number())
	all, _ := proto.GetExtension(options, option).([]*ratelimitpb.Rule) // nothing else, by the option's type
	for i, stated := range all {
		at := at.at(line(number, int32(i)))
		// A rule that has no usable name is told by its position among those of
		// the same option.
		at.rule = fmt.Sprintf("%s #%d", option.TypeDescriptor().Name(), i+1)
		rules = append(rules, r.rule(at, stated))
	}
	return rules
}

// methodOption reads (ratelimit.method) into m.
func (r *reader) methodOption(m *method, stated *ratelimitpb.Method) {
	fields := stated.ProtoReflect().Descriptor().Fields()
	number := int32(ratelimitpb.E_Method.TypeDescriptor().Number())
	at := func(name protoreflect.Name) place {
		return m.at(r.file.lines.method(m.proto, number, int32(fields.ByName(name).Number())))
	}
	r.unknownFields(m.place, stated)
	if proto.Size(stated) == 0 {
		r.add(m.at(r.file.lines.method(m.proto, number)), "method", "{}", "want cost, refund_on or exempt")
	}
	m.exempt = stated.GetExempt()
	if m.exempt && len(m.own) > 0 {
		r.add(at("exempt"), "exempt", "true", "want no rule of the method's own beside it")
	}
	if stated.Cost != nil {
		r.cost(m, at("cost"), stated.GetCost())
	}
	r.refunds(m, at("refund_on"), stated.GetRefundOn())
}

// cost reads what a call of m costs.
func (r *reader) cost(m *method, at place, stated string) {
	value := strconv.Quote(stated)
	m.costAt = &statement{at, value}
	if m.exempt {
		r.add(at, "cost", value, "want none beside exempt: true")
		return
	}
	cost, err := ratelimit.ParseCost(stated)
	if err != nil {
		r.add(at, "cost", value, err.Error())
		return
	}
	if cost.Path == "" {
		m.cost = cost
		return
	}
	path, wrong := costPath(m.proto, cost.Path)
	if path == nil {
		r.add(at, "cost", value, wrong.String())
		return
	}
	m.cost, m.costPath = cost, path
}

// refunds reads the codes that give the charge of a call of m back.
func (r *reader) refunds(m *method, at place, stated []string) {
	if len(stated) == 0 {
		return
	}
	value := strconv.Quote(stated[0])
	m.refundAt = &statement{at, value}
	switch {
	case m.exempt:
		r.add(at, "refund_on", value, "want none beside exempt: true")
	case m.proto.Desc.IsStreamingClient() || m.proto.Desc.IsStreamingServer():
		r.add(at, "refund_on", value, "want none on a streaming method: only unary calls are refunded")
	}
	seen := map[ratelimit.Code]bool{}
	for _, name := range stated {
		code, err := ratelimit.ParseCode(name)
		switch {
		case err != nil:
			r.add(at, "refund_on", strconv.Quote(name), err.Error())
		case seen[code]:
			r.add(at, "refund_on", strconv.Quote(name), "want each code once")
		default:
			seen[code] = true
			m.refundOn = append(m.refundOn, code)
		}
	}
}
