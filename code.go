package ratelimit

import (
	"errors"
	"slices"
	"strconv"
	"strings"
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
// "UNAVAILABLE". The error says what was wanted, the nearest name or all of
// them, and does not repeat s.
func ParseCode(s string) (Code, error) {
	if i := slices.Index(codeNames[:], s); i >= 0 {
		return Code(i), nil
	}
	if near := nearestCode(s); near != "" {
		return 0, errors.New("want " + near + ", a status code as gRPC writes it")
	}
	return 0, errors.New("want one of " + strings.Join(codeNames[:], ", "))
}

// nearestCode returns the name of a code that is meant by its number, in other
// letters, as Go spells it, or with a slip or two; "" if none is near.
func nearestCode(s string) string {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil && n < uint64(len(codeNames)) {
		return codeNames[n]
	}
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < 'A' || r > 'Z' {
				return -1
			}
			return r
		}, strings.ToUpper(s))
	}
	stated := letters(s)
	if len(stated) > 40 {
		return ""
	}
	nearest, least := "", 3
	for _, name := range codeNames {
		bare := letters(name)
		if n := slips(stated, bare); n < least && n <= len(bare)/4 {
			nearest, least = name, n
		}
	}
	return nearest
}

// slips returns how many letters have to be added, left out or changed to make b
// of a.
func slips(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			same := diagonal
			if a[i] != b[j] {
				same++
			}
			diagonal = row[j+1]
			row[j+1] = min(same, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// String returns the code's name in the gRPC protocol: "UNAVAILABLE".
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "Code(" + strconv.FormatUint(uint64(c), 10) + ")"
}
