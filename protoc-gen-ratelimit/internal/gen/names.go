package gen

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// A declarations says what declares the Go names of a file: "message acme.Pay".
type declarations map[string]string

const servicePrefix = "service "

// nameFunctions names the function of each service that has a table:
// PaymentsLimits for service Payments. The files stand in the order of their
// imports.
//
// Something else in the same Go package may have that name, such as a message
// PaymentsLimits. If the file or one that it imports declares it, an underscore
// is added, as protoc-gen-go does: so the name depends on nothing that differs
// between runs. A clash between files that do not import each other is a fault.
func nameFunctions(files []*file, found *faults) {
	declared := map[string]declarations{}
	for _, f := range files {
		own := declarationsOf(f.proto)
		declared[f.path] = own
		visible := maps.Clone(own)
		for _, other := range files {
			if other.proto.GoImportPath == f.proto.GoImportPath && f.imports[other.path] {
				maps.Copy(visible, declared[other.path])
			}
		}
		for _, s := range f.services {
			if !s.limits() {
				continue
			}
			s.function = s.proto.GoName + "Limits"
			for visible[s.function] != "" {
				s.function += "_"
			}
			own[s.function] = servicePrefix + string(s.proto.Desc.FullName())
			visible[s.function] = own[s.function]
		}
	}
	for _, f := range files {
		for _, s := range f.services {
			noteClashes(f, s, files, declared, found)
		}
	}
}

// noteClashes notes what other files of the package declare by the name of a
// service's function.
func noteClashes(f *file, s *service, files []*file, declared map[string]declarations, found *faults) {
	if s.function == "" || !f.proto.Generate {
		return
	}
	for _, other := range files {
		what := declared[other.path][s.function]
		if other == f || what == "" || other.proto.GoImportPath != f.proto.GoImportPath {
			continue
		}
		if f.path < other.path && other.proto.Generate && strings.HasPrefix(what, servicePrefix) {
			continue // noted once, in the other file
		}
		found.add(s.place, "service", strconv.Quote(string(s.proto.Desc.Name())), fmt.Sprintf(
			"want another name for it, or for %s (%s): both make %s in Go package %s",
			what, other.path, s.function, f.proto.GoImportPath))
	}
}

// declarationsOf returns the exported names that protoc-gen-go declares for a
// file. Those of protoc-gen-go-grpc cannot end as ours do.
func declarationsOf(f *protogen.File) declarations {
	names := declarations{f.GoDescriptorIdent.GoName: "file " + f.Desc.Path()}
	for _, e := range f.Enums {
		names.enum(e)
	}
	for _, m := range f.Messages {
		names.message(m)
	}
	for _, x := range f.Extensions {
		names.extension(x)
	}
	return names
}

func (d declarations) message(m *protogen.Message) {
	d[m.GoIdent.GoName] = fmt.Sprintf("message %s", m.Desc.FullName())
	for _, f := range m.Fields {
		what := fmt.Sprintf("field %s", f.Desc.FullName())
		if f.Oneof != nil {
			d[f.GoIdent.GoName] = what
		}
		if f.Desc.HasDefault() {
			d["Default_"+f.GoIdent.GoName] = what
		}
	}
	for _, e := range m.Enums {
		d.enum(e)
	}
	for _, nested := range m.Messages {
		d.message(nested)
	}
	for _, x := range m.Extensions {
		d.extension(x)
	}
}

func (d declarations) enum(e *protogen.Enum) {
	what := fmt.Sprintf("enum %s", e.Desc.FullName())
	d[e.GoIdent.GoName] = what
	d[e.GoIdent.GoName+"_name"] = what
	d[e.GoIdent.GoName+"_value"] = what
	for _, v := range e.Values {
		what := fmt.Sprintf("enum value %s", v.Desc.FullName())
		d[v.GoIdent.GoName] = what
		if v.PrefixedAlias.GoName != "" {
			d[v.PrefixedAlias.GoName] = what
		}
	}
}

func (d declarations) extension(x *protogen.Extension) {
	d["E_"+x.GoIdent.GoName] = fmt.Sprintf("extension %s", x.Desc.FullName())
}
