package gen

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers of the fields of descriptor.proto that lead to an option.
const (
	fileService    = 6
	serviceMethod  = 2
	serviceOptions = 3
	methodOptions  = 4
)

// A positions finds lines in a file. Compilers keep, beside the position of each
// declaration, those of its options under the path that they were given: a whole
// message, one of its fields, or one of a list.
type positions struct {
	// lines are, from 1, the first lines of what is below a path.
	lines map[string]int
}

func newPositions(f *protogen.File) positions {
	p := positions{map[string]int{}}
	for _, l := range f.Proto.GetSourceCodeInfo().GetLocation() {
		if len(l.GetPath()) == 0 || l.GetPath()[0] != fileService || len(l.GetSpan()) == 0 {
			continue
		}
		var key []byte
		for _, step := range l.GetPath() {
			key = appendStep(key, step)
			if p.lines[string(key)] == 0 {
				p.lines[string(key)] = int(l.GetSpan()[0]) + 1
			}
		}
	}
	return p
}

func appendStep(key []byte, step int32) []byte {
	return binary.BigEndian.AppendUint32(key, uint32(step))
}

// line returns the line of the longest beginning of a path that has one, or 0.
// Beginnings of fewer than least steps lead to another element.
func (p positions) line(path protoreflect.SourcePath, least int) int {
	var key []byte
	line := 0
	for i, step := range path {
		key = appendStep(key, step)
		if found := p.lines[string(key)]; found > 0 && i+1 >= least {
			line = found
		}
	}
	return line
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
		// The path of all options together leads to the first one, whichever
		// that is, so the option's own number must be in it.
		if line := p.line(path, len(element)+2); line > 0 {
			return line
		}
	}
	return p.line(element, len(element))
}
