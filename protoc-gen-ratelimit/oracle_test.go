package main

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// reflectKey reads the value of a key at a path, or missing.
func reflectKey(request proto.Message, path string) string {
	m := request.ProtoReflect()
	names := strings.Split(path, ".")
	for i, name := range names {
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if f.HasPresence() && !m.Has(f) {
			return missing
		}
		if f.Message() == nil {
			return keyText(f, m.Get(f))
		}
		m = m.Get(f).Message()
		if i == len(names)-1 { // a wrapper
			f = m.Descriptor().Fields().ByName("value")
			return keyText(f, m.Get(f))
		}
	}
	return missing
}

func keyText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		if v.Bool() {
			return "1"
		}
		return "0"
	case protoreflect.EnumKind:
		return strconv.Itoa(int(v.Enum()))
	case protoreflect.BytesKind:
		return string(v.Bytes())
	}
	return v.String() // text, and integers in decimal
}

// reflectCost reads the cost at a path.
func reflectCost(request proto.Message, path string) int64 {
	m := request.ProtoReflect()
	for name := range strings.SplitSeq(path, ".") {
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		v := m.Get(f)
		switch {
		case f.IsList():
			return int64(v.List().Len())
		case f.IsMap():
			return int64(v.Map().Len())
		case f.Message() != nil:
			m = v.Message()
			continue
		}
		return costValue(v)
	}
	return costValue(m.Get(m.Descriptor().Fields().ByName("value"))) // a wrapper
}

func costValue(v protoreflect.Value) int64 {
	switch v := v.Interface().(type) {
	case string:
		return int64(len(v))
	case []byte:
		return int64(len(v))
	case uint32:
		return int64(v)
	case uint64:
		return int64(min(v, math.MaxInt64))
	}
	return v.Int()
}

// fill sets about half of the fields of a message, to values at the ends of
// their ranges among others.
func fill(random *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if random.IntN(2) == 0 || f.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case f.IsMap():
			key := protoreflect.ValueOfString(strconv.Itoa(random.IntN(5))).MapKey()
			m.Mutable(f).Map().Set(key, m.Mutable(f).Map().NewValue())
		case f.IsList():
			for range random.IntN(3) {
				m.Mutable(f).List().Append(m.Mutable(f).List().NewElement())
			}
		case f.Message() != nil:
			fill(random, m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, randomValue(random, f))
		}
	}
}

func randomValue(random *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	bits := random.Uint64() >> random.IntN(64)
	if random.IntN(4) == 0 {
		bits = []uint64{0, 1, math.MaxUint64, math.MaxInt64, 1 << 63}[random.IntN(5)]
	}
	text := strings.Repeat("\x00x", random.IntN(3))
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(bits&1 == 1)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(random.IntN(values.Len())).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(bits))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(bits))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(bits)
	}
	return protoreflect.ValueOfInt64(int64(bits))
}
