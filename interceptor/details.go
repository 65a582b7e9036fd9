package interceptor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/protolimit/ratelimit"
)

const (
	errorInfoType    = "type.googleapis.com/google.rpc.ErrorInfo"
	retryInfoType    = "type.googleapis.com/google.rpc.RetryInfo"
	quotaFailureType = "type.googleapis.com/google.rpc.QuotaFailure"
)

// maxQuotaFailure is how many bytes of a QuotaFailure may be written before
// another rule or dimension is left out. A client that limits the size of
// metadata, often to 8 kB, takes a response above it for a broken one.
const maxQuotaFailure = 2048

// A draft is a status in the making. Its details are written field by field:
// refusals are what is left to serve under load, and to marshal generated
// messages costs more than twice as much. The numbers of fields are those of
// google/rpc/error_details.proto; tests decode them with its generated messages.
type draft struct {
	status  spb.Status
	details [3]anypb.Any
	bytes   []byte // of the details, one after the other
}

// err returns the status as an error that shares nothing with the draft.
func (s *draft) err(code codes.Code, message string) error {
	s.status.Code, s.status.Message = int32(code), message
	return status.ErrorProto(&s.status)
}

func (s *draft) reset() {
	s.status.Details = s.status.Details[:0]
	s.bytes = s.bytes[:0]
}

// add makes what was written since start the next detail.
func (s *draft) add(typeURL string, start int) *draft {
	detail := &s.details[len(s.status.Details)]
	detail.TypeUrl, detail.Value = typeURL, s.bytes[start:]
	s.status.Details = append(s.status.Details, detail)
	return s
}

// errorInfo adds a google.rpc.ErrorInfo; pairs are the keys and values of its
// metadata.
func (s *draft) errorInfo(reason string, pairs ...string) *draft {
	start := len(s.bytes)
	s.bytes = appendString(s.bytes, 1, reason)
	s.bytes = appendString(s.bytes, 2, Domain)
	for i := 0; i < len(pairs); i += 2 {
		s.bytes = appendPair(s.bytes, 3, pairs[i], pairs[i+1])
	}
	return s.add(errorInfoType, start)
}

// retryInfo adds a google.rpc.RetryInfo with a delay above 0.
func (s *draft) retryInfo(delay time.Duration) *draft {
	start := len(s.bytes)
	if seconds := delay / time.Second; seconds != 0 {
		s.bytes = appendNumber(s.bytes, 1, uint64(seconds))
	}
	if nanos := delay % time.Second; nanos != 0 {
		s.bytes = appendNumber(s.bytes, 2, uint64(nanos))
	}
	s.bytes = nest(s.bytes, start, 1)
	return s.add(retryInfoType, start)
}

// quotaFailure adds a google.rpc.QuotaFailure with a violation for each rule
// that refuses, the one that binds first.
func (s *draft) quotaFailure(d *ratelimit.Decision) *draft {
	start := len(s.bytes)
	limit := start + maxQuotaFailure
	s.bytes = appendViolation(s.bytes, d, d.Binding, limit)
	for i := range d.Verdicts {
		if i != d.Binding && !d.Verdicts[i].Allowed && len(s.bytes) < limit {
			s.bytes = appendViolation(s.bytes, d, i, limit)
		}
	}
	return s.add(quotaFailureType, start)
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
