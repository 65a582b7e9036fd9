package gen

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/protolimit/ratelimit"
)

// A path leads from a request to one of its fields.
type path struct {
	request *protogen.Message
	way     []*protogen.Field // singular messages
	last    *protogen.Field
	class   ratelimit.Class // of a key
}

// A misstep is why a path leads nowhere. The zero misstep is none.
type misstep struct {
	want string // "want ..."
	why  string
}

func (m misstep) String() string { return m.want + ": " + m.why }

const (
	keyEnds  = "want a path that ends at an integer, enum, bool, bytes or string, or at a wrapper of one"
	costEnds = "want a path that ends at an integer or its wrapper, or at a repeated, map, string or bytes field"
)

// keyPath returns the path of a key, or a misstep.
func keyPath(m *protogen.Method, text string) (*path, misstep) {
	p, wrong := walk(m, text)
	if wrong != (misstep{}) {
		return nil, wrong
	}
	stated := p.last
	if stated.Desc.Cardinality() != protoreflect.Repeated {
		p.unwrap()
		p.class = classOf(p.last.Desc.Kind())
	}
	if p.class == ratelimit.ClassNone {
		return nil, misstep{keyEnds, describe(stated)}
	}
	return p, misstep{}
}

// costPath returns the path of a cost, or a misstep.
func costPath(m *protogen.Method, text string) (*path, misstep) {
	p, wrong := walk(m, text)
	if wrong != (misstep{}) {
		return nil, wrong
	}
	if p.last.Desc.Cardinality() == protoreflect.Repeated {
		return p, misstep{}
	}
	stated := p.last
	switch classOf(stated.Desc.Kind()) {
	case ratelimit.ClassInteger, ratelimit.ClassText:
		return p, misstep{}
	}
	p.unwrap()
	if classOf(p.last.Desc.Kind()) == ratelimit.ClassInteger {
		return p, misstep{}
	}
	return nil, misstep{costEnds, describe(stated)}
}

// walk follows a path from the request of m.
func walk(m *protogen.Method, text string) (*path, misstep) {
	if m.Desc.IsStreamingClient() {
		return nil, misstep{"want no field", "a client-streaming method has many requests"}
	}
	p := &path{request: m.Input}
	message := m.Input
	names := strings.Split(text, ".")
	for i, name := range names {
		field := fieldNamed(message, name)
		if field == nil {
			return nil, misstep{wantField(message), fmt.Sprintf("%s has no field %q", message.Desc.FullName(), name)}
		}
		if i == len(names)-1 {
			p.last = field
			break
		}
		if field.Message == nil || field.Desc.Cardinality() == protoreflect.Repeated {
			return nil, misstep{"want only singular messages on the way", describe(field)}
		}
		p.way = append(p.way, field)
		message = field.Message
	}
	return p, misstep{}
}

// unwrap makes a path to a wrapper lead to the value in it.
func (p *path) unwrap() {
	m := p.last.Message
	if m == nil || !isWrapper(m.Desc.FullName()) {
		return
	}
	p.way = append(p.way, p.last)
	p.last = m.Fields[0]
}

// isWrapper tells whether a message is one of google/protobuf/wrappers.proto.
func isWrapper(name protoreflect.FullName) bool {
	if name.Parent() != "google.protobuf" {
		return false
	}
	switch name.Name() {
	case "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value",
		"BoolValue", "StringValue", "BytesValue":
		return true
	}
	return false
}

// isFloatWrapper tells whether m is a wrapper of a number that is no integer.
func isFloatWrapper(m *protogen.Message) bool {
	return isWrapper(m.Desc.FullName()) && classOf(m.Fields[0].Desc.Kind()) == ratelimit.ClassNone
}

// classOf returns the class of a key, or ClassNone if a field of this kind
// cannot be one.
func classOf(k protoreflect.Kind) ratelimit.Class {
	switch k {
	case protoreflect.BoolKind:
		return ratelimit.ClassBool
	case protoreflect.EnumKind:
		return ratelimit.ClassEnum
	case protoreflect.StringKind, protoreflect.BytesKind:
		return ratelimit.ClassText
	case protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return ratelimit.ClassNone
	}
	return ratelimit.ClassInteger
}

func fieldNamed(m *protogen.Message, name string) *protogen.Field {
	for _, f := range m.Fields {
		if string(f.Desc.Name()) == name {
			return f
		}
	}
	return nil
}

// wantField lists the fields of m, some of them if there are many.
func wantField(m *protogen.Message) string {
	const most = 12
	if len(m.Fields) == 0 {
		return "want no field"
	}
	var names []string
	for _, f := range m.Fields {
		names = append(names, string(f.Desc.Name()))
	}
	if more := len(names) - most; more > 1 {
		names = append(names[:most], fmt.Sprintf("or one of %d more", more))
	}
	return "want one of " + strings.Join(names, ", ")
}

// describe says what a field is: "acme.Order.tags has type repeated string".
func describe(f *protogen.Field) string {
	kind := f.Desc.Kind().String()
	if f.Message != nil {
		kind = string(f.Message.Desc.FullName())
	}
	switch {
	case f.Desc.IsMap():
		kind = "map"
	case f.Desc.Cardinality() == protoreflect.Repeated:
		kind = "repeated " + kind
	case f.Message != nil && len(f.Message.Fields) > 0 && !isFloatWrapper(f.Message):
		kind += ", and the path may go on to its fields"
	}
	return fmt.Sprintf("%s has type %s", f.Desc.FullName(), kind)
}
