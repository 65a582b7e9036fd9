package interceptor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/protolimit/ratelimit"
)

// The details of a refusal are written field by field: to marshal generated
// messages costs three times as much, and refusals are what is left to serve
// under load. The numbers are those of google/rpc/error_details.proto; a test
// compares with its generated messages.

const (
	errorInfoType    = "type.googleapis.com/google.rpc.ErrorInfo"
	retryInfoType    = "type.googleapis.com/google.rpc.RetryInfo"
	quotaFailureType = "type.googleapis.com/google.rpc.QuotaFailure"
)

// maxQuotaFailure is how many bytes of a QuotaFailure may be written before
// another rule or dimension is left out. A client that limits the size of
// metadata, often to 8 kB, takes a response above it for a broken one.
const maxQuotaFailure = 2048

func newAny(typeURL string, value []byte) *anypb.Any {
	return &anypb.Any{TypeUrl: typeURL, Value: value}
}

// appendErrorInfo appends a google.rpc.ErrorInfo; pairs are the keys and values
// of its metadata.
func appendErrorInfo(b []byte, reason string, pairs []string) []byte {
	b = appendString(b, 1, reason)
	b = appendString(b, 2, Domain)
	for i := 0; i < len(pairs); i += 2 {
		b = appendPair(b, 3, pairs[i], pairs[i+1])
	}
	return b
}

// appendRetryInfo appends a google.rpc.RetryInfo with a delay above 0.
func appendRetryInfo(b []byte, delay time.Duration) []byte {
	start := len(b)
	if seconds := delay / time.Second; seconds != 0 {
		b = appendNumber(b, 1, uint64(seconds))
	}
	if nanos := delay % time.Second; nanos != 0 {
		b = appendNumber(b, 2, uint64(nanos))
	}
	return nest(b, start, 1)
}

// appendQuotaFailure appends a google.rpc.QuotaFailure with a violation for each
// rule that refuses, the one that binds first.
func appendQuotaFailure(b []byte, d *ratelimit.Decision) []byte {
	limit := len(b) + maxQuotaFailure
	b = appendViolation(b, d, d.Binding, limit)
	for i := range d.Verdicts {
		if i != d.Binding && !d.Verdicts[i].Allowed && len(b) < limit {
			b = appendViolation(b, d, i, limit)
		}
	}
	return b
}

// appendViolation appends the violation of rule i. Of what tells its bucket
// apart it says which parts there are, and the values of those that the caller
// may be told, until b is limit long.
func appendViolation(b []byte, d *ratelimit.Decision, i, limit int) []byte {
	start := len(b)
	rule := &d.Rules[i]
	b = appendString(b, 1, subject(rule.Key))
	b = appendString(b, 2, describe(rule))
	service := serviceOf(d.Method)
	b = appendString(b, 3, service)
	if rule.Scope == ratelimit.ScopeService {
		b = appendString(b, 4, service)
	} else {
		b = appendString(b, 4, d.Method)
	}
	b = appendString(b, 5, rule.Name)
	for part := range rule.Key {
		if value, ok := d.Dimension(i, part); ok && len(b) < limit {
			b = appendPair(b, 6, rule.Key[part].String(), value)
		}
	}
	if rule.Rate.Count != 0 {
		b = appendNumber(b, 7, uint64(rule.Rate.Count))
	}
	return nest(b, start, 1)
}

// subject names what tells callers apart: "principal, field:merchant_id".
func subject(key []ratelimit.KeyPart) string {
	if len(key) == 0 {
		return "all callers"
	}
	var s strings.Builder
	for i := range key {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(key[i].String())
	}
	return s.String()
}

// describe states the limit: "10/s, burst 20".
func describe(rule *ratelimit.Rule) string {
	s := rule.Rate.String()
	if most := rule.Most(); most != rule.Rate.Count {
		s += ", burst " + strconv.FormatInt(most, 10)
	}
	return s
}

// serviceOf cuts the service from "/package.Service/Method".
func serviceOf(method string) string {
	service := strings.TrimPrefix(method, "/")
	if cut := strings.LastIndexByte(service, '/'); cut >= 0 {
		service = service[:cut]
	}
	return service
}

// appendString appends a field of text. Text that is not UTF-8, as an unknown
// method's name may be, would make the message unreadable.
func appendString(b []byte, number protowire.Number, value string) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendString(b, strings.ToValidUTF8(value, "\uFFFD"))
}

// appendNumber appends a field of an integer that is not negative.
func appendNumber(b []byte, number protowire.Number, value uint64) []byte {
	b = protowire.AppendTag(b, number, protowire.VarintType)
	return protowire.AppendVarint(b, value)
}

// appendPair appends an entry of a map from text to text.
func appendPair(b []byte, number protowire.Number, key, value string) []byte {
	start := len(b)
	b = appendString(b, 1, key)
	b = appendString(b, 2, value)
	return nest(b, start, number)
}

// nest makes what was written since start a message in a field.
func nest(b []byte, start int, number protowire.Number) []byte {
	var head [2 * 10]byte // a tag and a length
	h := protowire.AppendTag(head[:0], number, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(len(b)-start))
	return slices.Insert(b, start, h...)
}
