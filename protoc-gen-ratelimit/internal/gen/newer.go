package gen

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// newEnough is wanted where an annotation is of a newer options file.
const newEnough = "a protoc-gen-ratelimit as new as the ratelimit/options.proto that states it"

// A newer knows what the options file of a run declares that this plugin does
// not know. Such annotations must not be ignored.
type newer struct {
	// options are names of options by the message that they extend and number.
	options map[string]map[protowire.Number]string
	// fields are names of fields by the message's name and number.
	fields map[protoreflect.Name]map[protowire.Number]string
}

// newerOptions reads the run's options file, if there is one in the request.
func newerOptions(req *pluginpb.CodeGeneratorRequest) newer {
	n := newer{map[string]map[protowire.Number]string{}, map[protoreflect.Name]map[protowire.Number]string{}}
	ours := ratelimitpb.File_ratelimit_options_proto
	for _, f := range req.GetProtoFile() {
		if !isOptions(f) {
			continue
		}
		for _, x := range f.GetExtension() {
			if ours.Extensions().ByName(protoreflect.Name(x.GetName())) == nil {
				n.add(x)
			}
		}
		for _, m := range f.GetMessageType() {
			names := map[protowire.Number]string{}
			for _, field := range m.GetField() {
				names[protowire.Number(field.GetNumber())] = field.GetName()
			}
			n.fields[protoreflect.Name(m.GetName())] = names
		}
	}
	return n
}

// isOptions tells whether f is the options file, which may have any path.
func isOptions(f *descriptorpb.FileDescriptorProto) bool {
	rule := ratelimitpb.E_Rule.TypeDescriptor()
	return f.GetPackage() == string(rule.ParentFile().Package()) &&
		slices.ContainsFunc(f.GetExtension(), func(x *descriptorpb.FieldDescriptorProto) bool {
			return x.GetName() == string(rule.Name())
		})
}

func (n newer) add(x *descriptorpb.FieldDescriptorProto) {
	extendee := x.GetExtendee()
	if n.options[extendee] == nil {
		n.options[extendee] = map[protowire.Number]string{}
	}
	n.options[extendee][protowire.Number(x.GetNumber())] = "(ratelimit." + x.GetName() + ")"
}

// unknownOptions notes the options of an element that are of a newer options
// file.
func (r *reader) unknownOptions(at place, options proto.Message) {
	names := r.newer.options["."+string(options.ProtoReflect().Descriptor().FullName())]
	if len(names) == 0 {
		return
	}
	// On the wire all options are alike, whether this program knows them or not.
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(options)
	if err != nil {
		r.add(at, "options", strconv.Quote(err.Error()), "want options that can be encoded")
		return
	}
	for _, number := range wireNumbers(wire) {
		if name, ok := names[number]; ok {
			r.add(at, name, "unknown", "want "+newEnough)
		}
	}
}

// unknownFields notes the fields of an option that are of a newer options file.
func (r *reader) unknownFields(at place, option proto.Message) {
	m := option.ProtoReflect()
	for _, number := range wireNumbers(m.GetUnknown()) {
		name, ok := r.newer.fields[m.Descriptor().Name()][number]
		if !ok {
			name = "field " + strconv.Itoa(int(number))
		}
		r.add(at, name, "unknown", "want "+newEnough)
	}
}

// wireNumbers returns the numbers of the fields of an encoded message, each
// once and in order of appearance.
func wireNumbers(wire []byte) []protowire.Number {
	var numbers []protowire.Number
	seen := map[protowire.Number]bool{}
	for len(wire) > 0 {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			break
		}
		if !seen[number] {
			seen[number] = true
			numbers = append(numbers, number)
		}
		wire = wire[n:]
	}
	return numbers
}
