package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// A bucket's key is the concatenation of its parts, each of which begins with a
// tag that tells its length, so that no two lists of parts give the same key
// whatever bytes a caller sends:
//
//	n                 the call lacks the part
//	4 + 4 bytes       an IPv4 address
//	6 + 16 bytes      an IPv6 address, cut to its prefix
//	l                 a peer without an IP address
//	t + length + text a value of up to 128 bytes, as it is
//	T + 16 bytes      a longer value: the start of its SHA-256
//	m + 16 bytes      a header: the start of the SHA-256 of its values, which
//	                  may be secrets
const (
	tagMissing  = 'n'
	tagIPv4     = '4'
	tagIPv6     = '6'
	tagLocal    = 'l'
	tagText     = 't'
	tagLongText = 'T'
	tagHeader   = 'm'

	maxText  = 128
	hashSize = 16
)

// A keyBuffer holds the encoded key parts of one call.
type keyBuffer struct {
	bytes   []byte
	ends    []int  // bytes[ends[i-1]:ends[i]] is part i
	missing uint64 // bit i: the call lacks part i
}

func (b *keyBuffer) reset() { b.bytes, b.ends, b.missing = b.bytes[:0], b.ends[:0], 0 }

// part returns the encoding of part i, valid until the buffer grows.
func (b *keyBuffer) part(i int) []byte {
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.bytes[start:b.ends[i]:b.ends[i]]
}

// add appends the value of a part for a call.
func (b *keyBuffer) add(ctx context.Context, l *Limiter, part *planPart, call *Call) {
	found := true
	switch part.Source {
	case SourceIP:
		found = b.addIP(ctx, l, call)
	case SourcePrincipal, SourceAttr:
		var value string
		if value, found = part.function(ctx); found {
			b.bytes = appendText(b.bytes, value)
		}
	case SourceMetadata:
		found = b.addHeader(ctx, part.Name, call)
	case SourceField:
		found = b.addField(part.Field, call.Request)
	}
	if !found {
		b.missing |= 1 << len(b.ends)
		b.bytes = append(b.bytes, tagMissing)
	}
	b.ends = append(b.ends, len(b.bytes))
}

func (b *keyBuffer) addIP(ctx context.Context, l *Limiter, call *Call) bool {
	addr, ok := l.clientAddr(ctx, call)
	switch {
	case !ok:
		return false
	case !addr.IsValid():
		b.bytes = append(b.bytes, tagLocal)
	case addr.Is4():
		a := addr.As4()
		b.bytes = append(append(b.bytes, tagIPv4), a[:]...)
	default:
		b.bytes = appendIPv6(b.bytes, addr, l.ipv6Prefix)
	}
	return true
}

// appendIPv6 appends an address without the bits that a caller can choose.
func appendIPv6(dst []byte, addr netip.Addr, bits int) []byte {
	a := addr.As16()
	high, low := binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
	high &= ^uint64(0) << max(64-bits, 0)
	low &= ^uint64(0) << min(128-bits, 64)
	dst = binary.BigEndian.AppendUint64(append(dst, tagIPv6), high)
	return binary.BigEndian.AppendUint64(dst, low)
}

// addHeader appends a hash of all values, each with its length before it.
func (b *keyBuffer) addHeader(ctx context.Context, name string, call *Call) bool {
	if call.Transport == nil {
		return false
	}
	values := call.Transport.Values(ctx, name)
	if len(values) == 0 {
		return false
	}
	start := len(b.bytes)
	for _, v := range values {
		b.bytes = binary.BigEndian.AppendUint64(b.bytes, uint64(len(v)))
		b.bytes = append(b.bytes, v...)
	}
	sum := sha256.Sum256(b.bytes[start:])
	clear(b.bytes[start:])
	b.bytes = append(append(b.bytes[:start], tagHeader), sum[:hashSize]...)
	return true
}

func (b *keyBuffer) addField(field FieldFunc, request any) bool {
	start := len(b.bytes)
	bytes, ok := field(append(b.bytes, tagText, 0), request)
	if !ok {
		return false
	}
	b.bytes = bytes
	value := bytes[start+2:]
	if len(value) <= maxText {
		bytes[start+1] = byte(len(value))
		return true
	}
	sum := sha256.Sum256(value)
	b.bytes = append(append(bytes[:start], tagLongText), sum[:hashSize]...)
	return true
}

func appendText(dst []byte, value string) []byte {
	if len(value) <= maxText {
		return append(append(dst, tagText, byte(len(value))), value...)
	}
	sum := sha256.Sum256([]byte(value))
	return append(append(dst, tagLongText), sum[:hashSize]...)
}

// join appends the concatenation of parts as one more part.
func (b *keyBuffer) join(parts []int) {
	for _, i := range parts {
		b.bytes = append(b.bytes, b.part(i)...)
	}
	b.ends = append(b.ends, len(b.bytes))
}
