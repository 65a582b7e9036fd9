package gen

import (
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Numbers of the fields of descriptor.proto that lead to an option.
const (
	fileService    = 6
	serviceMethod  = 2
	serviceOptions = 3
	methodOptions  = 4
)

// A positions finds lines in a file. Compilers keep, beside the position of each
// declaration, those of its options under the path that they were given.
type positions struct {
	locations []*descriptorpb.SourceCodeInfo_Location
}

func newPositions(f *protogen.File) positions {
	return positions{f.Proto.GetSourceCodeInfo().GetLocation()}
}

// line returns the line, from 1, of the first location whose path begins with
// the longest of the given path's beginnings that has one, or 0.
//
// Beginnings shorter than least are not tried: they lead to another element.
func (p positions) line(path protoreflect.SourcePath, least int) int {
	for end := len(path); end >= least; end-- {
		for _, l := range p.locations {
			if len(l.Path) >= end && slices.Equal(l.Path[:end], path[:end]) {
				return int(l.Span[0]) + 1
			}
		}
	}
	return 0
}

// method returns the line of a method, or of the option inside it that the rest
// of the path leads to.
func (p positions) method(m *protogen.Method, option ...int32) int {
	path := protoreflect.SourcePath{fileService, int32(m.Parent.Desc.Index()), serviceMethod, int32(m.Desc.Index())}
	return p.option(path, methodOptions, option)
}

// service is the same for a service.
func (p positions) service(s *protogen.Service, option ...int32) int {
	return p.option(protoreflect.SourcePath{fileService, int32(s.Desc.Index())}, serviceOptions, option)
}

func (p positions) option(element protoreflect.SourcePath, options int32, option []int32) int {
	if len(option) > 0 {
		path := append(append(slices.Clone(element), options), option...)
		// No shorter than the option's number: the path of all options leads to
		// the first one, whichever that is.
		if line := p.line(path, len(element)+2); line > 0 {
			return line
		}
	}
	return p.line(element, len(element))
}
