package goredis

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// A Part is the value of one key part of a rule, as [ratelimit.Limiter] puts it
// into keys.
type Part struct{ encoded []byte }

// Key returns the key of a caller: the parts in the order in which the rule
// names them; none for a rule without key parts. It is the Key of a
// [ratelimit.Charge], and what [Backend.Reset] takes.
func Key(parts ...Part) []byte {
	var key []byte
	for _, p := range parts {
		key = append(key, p.encoded...)
	}
	return key
}

// Text is the value of principal, attr:NAME or field:PATH; integers and enum
// numbers in decimal, bools as 0 and 1.
func Text(value string) Part {
	if len(value) > 128 {
		return hashed('T', []byte(value))
	}
	return Part{append([]byte{'t', byte(len(value))}, value...)}
}

// IP is the value of ip: the caller's address, cut to the bits that the limiter
// tells callers apart by, as "203.0.113.9/32" or "2001:db8:0:1::/64". The zero
// prefix is that of peers without an address, as on a Unix socket.
func IP(prefix netip.Prefix) Part {
	if !prefix.IsValid() {
		return Part{[]byte{'l'}}
	}
	addr := prefix.Masked().Addr()
	if addr = addr.Unmap(); addr.Is4() {
		return Part{append([]byte{'4'}, addr.AsSlice()...)}
	}
	return Part{append([]byte{'6'}, addr.AsSlice()...)}
}

// Header is the value of metadata:NAME, of which only a hash is kept: all values
// of the header, in their order.
func Header(values ...string) Part {
	var all []byte
	for _, v := range values {
		all = binary.BigEndian.AppendUint64(all, uint64(len(v)))
		all = append(all, v...)
	}
	return hashed('m', all)
}

// Missing is a part that the calls lack; all callers without it share a bucket.
func Missing() Part { return Part{[]byte{'n'}} }

func hashed(kind byte, value []byte) Part {
	sum := sha256.Sum256(value)
	return Part{append([]byte{kind}, sum[:16]...)}
}
