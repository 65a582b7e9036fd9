package ratelimit

import (
	"errors"
	"slices"
	"strconv"
)

// A Code is the number of a gRPC status code: 0 is OK, 14 UNAVAILABLE. It
// converts from and to codes.Code of google.golang.org/grpc, which this package
// does not import.
type Code uint32

// codeNames spells the codes as the gRPC protocol does.
var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// ParseCode reads a code by its name in the gRPC protocol, such as
// "UNAVAILABLE". The error says what was wanted and does not repeat s.
func ParseCode(s string) (Code, error) {
	if i := slices.Index(codeNames[:], s); i >= 0 {
		return Code(i), nil
	}
	return 0, errors.New("want a status code such as UNAVAILABLE or OK")
}

// String returns the code's name in the gRPC protocol: "UNAVAILABLE".
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "Code(" + strconv.FormatUint(uint64(c), 10) + ")"
}
