package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Source says where a key part's value comes from.
type Source uint8

// The sources.
const (
	// SourceIP is the caller's address; see [WithTrustedProxies].
	SourceIP Source = iota + 1
	// SourcePrincipal is who the caller is; see [WithPrincipal].
	SourcePrincipal
	// SourceMetadata is all values of a request header, in order.
	SourceMetadata
	// SourceField is a field of the request message.
	SourceField
	// SourceAttr is a function of the limiter; see [WithAttr].
	SourceAttr
)

var sourceNames = [...]string{SourceIP: "ip", SourcePrincipal: "principal", SourceMetadata: "metadata", SourceField: "field", SourceAttr: "attr"}

// A Class is the kind of value that a field part has. Rules that share a bucket
// agree in it.
type Class uint8

// The classes.
const (
	// ClassNone is the class of parts other than fields.
	ClassNone Class = iota
	// ClassInteger is an integer, written in decimal.
	ClassInteger
	// ClassEnum is an enum's number, written in decimal.
	ClassEnum
	// ClassBool is 0 or 1.
	ClassBool
	// ClassText is a string or bytes, raw.
	ClassText
)

// A FieldFunc appends to dst the value that a request has at some path and
// returns the extended slice, or dst and false if the value is missing: a nil
// on the path, an unset field with presence, a request of another type. It is
// safe for concurrent use and keeps neither argument.
type FieldFunc func(dst []byte, request any) ([]byte, bool)

// A KeyPart is one of the things that tell callers apart.
type KeyPart struct {
	// Source says where the value comes from.
	Source Source
	// Name is the header's name in lower case, the field's path, or the name of
	// the limiter's function. Empty for SourceIP and SourcePrincipal.
	Name string
	// Class is the field's class; ClassNone for other sources.
	Class Class
	// Field reads the field; nil for other sources.
	Field FieldFunc
}

const keyForm = "want ip, principal, metadata:NAME, field:PATH or attr:NAME"

// ParseKeyPart reads a key part as the options file spells it: "ip",
// "principal", "metadata:NAME", "field:PATH" or "attr:NAME". A header's name is
// lowered. Of a field it returns the path alone: only generated code can read
// fields. The error says what was wanted and does not repeat s.
func ParseKeyPart(s string) (KeyPart, error) {
	kind, name, named := strings.Cut(s, ":")
	for source, text := range sourceNames {
		if text == "" || text != kind {
			continue
		}
		p := KeyPart{Source: Source(source), Name: name}
		if p.Source == SourceMetadata {
			p.Name = strings.ToLower(name)
		}
		if named != (p.Source != SourceIP && p.Source != SourcePrincipal) {
			break
		}
		return p, p.checkName()
	}
	return KeyPart{}, errors.New(keyForm)
}

// String returns the part as [ParseKeyPart] reads it.
func (p KeyPart) String() string {
	if p.Source == 0 || int(p.Source) >= len(sourceNames) {
		return "Source(" + strconv.Itoa(int(p.Source)) + "):" + p.Name
	}
	if p.Name == "" {
		return sourceNames[p.Source]
	}
	return sourceNames[p.Source] + ":" + p.Name
}

// check returns what was wanted of a part that cannot be used.
func (p *KeyPart) check() error {
	if p.Source == 0 || int(p.Source) >= len(sourceNames) {
		return errors.New(keyForm)
	}
	if err := p.checkName(); err != nil {
		return err
	}
	isField := p.Source == SourceField
	switch {
	case isField != (p.Field != nil):
		return errors.New("want a Field function for field:PATH, and for nothing else")
	case isField != (p.Class != ClassNone) || p.Class > ClassText:
		return errors.New("want a Class for field:PATH, and for nothing else")
	}
	return nil
}

func (p *KeyPart) checkName() error {
	switch p.Source {
	case SourceMetadata:
		if p.Name == "" || strings.Trim(p.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return errors.New("want metadata:NAME with letters, digits, '-', '_' and '.'")
		}
		if slices.Contains(hiddenHeaders, p.Name) {
			return errors.New("want a header that servers see: gRPC keeps this one to itself")
		}
	case SourceField:
		return checkPath(p.Name)
	case SourceAttr:
		if !isName(strings.ToLower(p.Name), "_.-") {
			return errors.New("want attr:NAME with a letter and up to 62 letters, digits, '_', '.' and '-'")
		}
	default:
		if p.Name != "" {
			return fmt.Errorf("want no name after %s", sourceNames[p.Source])
		}
	}
	return nil
}

// hiddenHeaders are those that grpc-go consumes: handlers never see them, so all
// callers would share a bucket. They are isReservedHeader of its transport but
// for user-agent and content-type, which it shows; host, which it renames to
// :authority or drops; and connection, with which it takes no call.
var hiddenHeaders = []string{
	"connection", "grpc-encoding", "grpc-message", "grpc-message-type", "grpc-status", "grpc-timeout", "host", "te",
}

// checkPath returns what was wanted of a path that is not proto field names
// joined by dots.
func checkPath(path string) error {
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || name[0] >= '0' && name[0] <= '9' || !isFieldName(name) {
			return errors.New("want field:PATH with proto field names joined by dots")
		}
	}
	return nil
}

func isFieldName(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
