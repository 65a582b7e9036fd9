package gen

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/gofeaturespb"
)

// keyFunc writes a [ratelimit.FieldFunc] that reads the field at the end of p.
//
// Getters of nil messages return nil, so the way is one expression: if any
// message on it is nil, or the request is of another type, the last one is nil.
func (w writer) keyFunc(p *path) string {
	dst, request, message := w.locals.name("dst"), w.locals.name("request"), w.locals.name("m")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	missing := fmt.Sprintf("return %s, false\n}", dst)

	line("func(%s []byte, %s any) ([]byte, bool) {", dst, request)
	line("%s, _ := %s.(*%s)", message, request, w.ident(p.request.GoIdent))
	parent := message
	if len(p.way) > 0 {
		parent = w.locals.name("parent")
		line("%s := %s", parent, getters(message, p.way))
	}
	value := parent + "." + getterName(p.last) + "()"
	switch presenceOf(p.last) {
	case presenceNone:
		line("if %s == nil {\n%s", parent, missing)
	case presenceNil:
		line("if %s == nil || %s.%s == nil {\n%s", parent, parent, p.last.GoName, missing)
	case presenceHas:
		line("if !%s.%s() {\n%s", parent, hasName(p.last), missing)
	case presenceOneof:
		// The members of a oneof have no getter that tells whether they are set.
		member := w.locals.name("member")
		line("if %s == nil {\n%s", parent, missing)
		line("%s, _ := %s.%s.(*%s)", member, parent, p.last.Oneof.GoName, w.ident(p.last.GoIdent))
		line("if %s == nil {\n%s", member, missing)
		value = member + "." + p.last.GoName
	}
	w.appendValue(line, dst, value, p.last.Desc.Kind())
	b.WriteString("}")
	return b.String()
}

// appendValue writes the statements that append a key's value.
func (w writer) appendValue(line func(string, ...any), dst, value string, kind protoreflect.Kind) {
	number := func(function, convert string) {
		line("return %s(%s, %s, 10), true", w.ident(strconvPackage.Ident(function)), dst, convert)
	}
	switch kind {
	case protoreflect.StringKind, protoreflect.BytesKind:
		line("return append(%s, %s...), true", dst, value)
	case protoreflect.BoolKind:
		line("if %s {\nreturn append(%s, '1'), true\n}", value, dst)
		line("return append(%s, '0'), true", dst)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		number("AppendInt", value)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		number("AppendUint", value)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		number("AppendUint", "uint64("+value+")")
	default: // 32 bits with a sign, and enums
		number("AppendInt", "int64("+value+")")
	}
}

// costFunc writes the function of a [ratelimit.Cost] that reads the field at the
// end of p. What is missing has the getter's value: 0, or its stated default.
func (w writer) costFunc(p *path) string {
	request, message := w.locals.name("request"), w.locals.name("m")
	value := getters(message, append(slices.Clip(p.way), p.last))
	result := "return int64(" + value + ")"
	switch kind := p.last.Desc.Kind(); {
	case p.last.Desc.Cardinality() == protoreflect.Repeated,
		kind == protoreflect.StringKind, kind == protoreflect.BytesKind:
		result = "return int64(len(" + value + "))"
	case kind == protoreflect.Uint64Kind, kind == protoreflect.Fixed64Kind:
		// Not min: the package may have a function of that name.
		units := w.locals.name("units")
		result = fmt.Sprintf("if %s := %s; %s < 1<<63 {\nreturn int64(%s)\n}\nreturn 1<<63 - 1", units, value, units, units)
	case kind == protoreflect.Int64Kind, kind == protoreflect.Sint64Kind, kind == protoreflect.Sfixed64Kind:
		result = "return " + value
	}
	return fmt.Sprintf("func(%s any) int64 {\n%s, _ := %s.(*%s)\n%s\n}",
		request, message, request, w.ident(p.request.GoIdent), result)
}

// getters writes the getters of fields that follow each other, from a message.
func getters(message string, fields []*protogen.Field) string {
	var b strings.Builder
	b.WriteString(message)
	for _, f := range fields {
		b.WriteString("." + getterName(f) + "()")
	}
	return b.String()
}

func getterName(f *protogen.Field) string {
	name, _ := f.MethodName("Get")
	return name
}

func hasName(f *protogen.Field) string {
	name, _ := f.MethodName("Has")
	return name
}

// A presence is how generated Go code tells that a field is set.
type presence int

const (
	presenceNone  presence = iota // it does not
	presenceNil                   // the struct's field is not nil
	presenceOneof                 // the oneof holds the member's type
	presenceHas                   // a method
)

func presenceOf(f *protogen.Field) presence {
	switch {
	case !f.Desc.HasPresence():
		return presenceNone
	case f.Parent.APILevel != gofeaturespb.GoFeatures_API_OPEN:
		return presenceHas
	case f.Oneof != nil && !f.Oneof.Desc.IsSynthetic():
		return presenceOneof
	}
	return presenceNil
}
