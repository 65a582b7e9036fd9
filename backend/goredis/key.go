package goredis

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/protolimit/ratelimit"
)

// maxTag is the longest key, in bytes, that no limiter made and that can still be
// read in a key of Redis; a longer one is hashed. Of the keys that a limiter makes
// each part is short: it hashes long values itself.
const maxTag = 512

// algorithmLetters end the keys of each algorithm's buckets.
var algorithmLetters = [...]byte{
	ratelimit.TokenBucket: 't', ratelimit.LeakyBucket: 'l', ratelimit.FixedWindow: 'f',
	ratelimit.SlidingWindow: 's', ratelimit.SlidingLog: 'g',
}

// appendKey appends the key of a bucket. Distinct buckets have distinct keys:
// the tag has no closing brace, and the letter is the last byte.
func appendKey(dst []byte, namespace string, limit *ratelimit.Limit, key []byte) []byte {
	dst = append(dst, namespace...)
	dst = append(dst, ":{"...)
	if len(key) == 0 {
		dst = appendEscaped(append(dst, '~'), []byte(limit.Bucket()))
	} else {
		dst = appendTag(dst, key)
	}
	dst = append(dst, "}:"...)
	dst = append(dst, limit.Bucket()...)
	return append(dst, ':', algorithmLetters[limit.Algorithm()])
}

// appendTag appends a key in readable form, if it is made of the parts that the
// limiter makes, else as ! and its bytes.
func appendTag(dst, key []byte) []byte {
	start := len(dst)
	if dst, ok := appendParts(dst, key); ok {
		return dst
	}
	dst = append(dst[:start], '!')
	if len(key) > maxTag {
		sum := sha256.Sum256(key)
		return hex.AppendEncode(append(dst, '#'), sum[:16])
	}
	return appendEscaped(dst, key)
}

// appendParts appends the parts of a key as ratelimit.Limiter encodes them. It
// returns false if they are not what it makes.
func appendParts(dst, key []byte) ([]byte, bool) {
	for first := true; len(key) > 0; first = false {
		if !first {
			dst = append(dst, ',')
		}
		kind, rest := key[0], key[1:]
		size, ok := partSize(kind, rest)
		if !ok || len(rest) < size {
			return dst, false
		}
		value := rest[:size]
		key = rest[size:]
		switch kind {
		case 'n':
			dst = append(dst, '-')
		case 'l':
			dst = append(dst, '@')
		case '4', '6':
			addr, _ := netip.AddrFromSlice(value)
			dst = addr.AppendTo(append(dst, '@'))
		case 't':
			dst = appendEscaped(append(dst, '='), value[1:])
		case 'T':
			dst = hex.AppendEncode(append(dst, '#'), value)
		case 'm':
			dst = hex.AppendEncode(append(dst, '*'), value)
		}
	}
	return dst, true
}

// partSize returns how many bytes follow the tag of a part.
func partSize(kind byte, rest []byte) (size int, ok bool) {
	switch kind {
	case 'n', 'l':
		return 0, true
	case '4':
		return 4, true
	case '6', 'T', 'm':
		return 16, true
	case 't':
		if len(rest) > 0 && rest[0] <= 128 {
			return 1 + int(rest[0]), true
		}
	}
	return 0, false
}

const hexDigits = "0123456789ABCDEF"

// appendEscaped appends text with every byte but plain ones as %XX.
func appendEscaped(dst, text []byte) []byte {
	for _, c := range text {
		if plain[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

// plain are the bytes that stand for themselves in a tag.
var plain = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@+/:") {
		set[c] = true
	}
	return set
}()
