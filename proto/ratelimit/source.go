// Package ratelimitpb is the Go form of ratelimit/options.proto, by which limits
// are written beside the methods that they limit.
package ratelimitpb

import _ "embed"

//go:embed options.proto
var source string

// Source returns the text of ratelimit/options.proto, for programs that compile
// .proto files which import it.
func Source() string { return source }
