// Package ratelimit decides whether a call may pass, by rules that stand beside
// the methods of a service in its .proto files.
//
// protoc-gen-ratelimit compiles the annotations to a [Table]. A [Limiter] made of
// it charges each call to the rules of its method, all of them or none, through a
// [Backend]: backend/memory in this process, backend/goredis in Redis, and package
// breaker around both, which decides in this process while Redis is away. Package
// interceptor puts a limiter into a gRPC server; other servers call
// [Limiter.Decide].
//
// # Keys
//
// What tells callers apart comes from the call ([Call]) and from functions that
// are given to [New]. Its values are encoded so that distinct ones never share a
// bucket, whatever bytes a caller sends.
//
// # Outcomes
//
// A call is refused, or it could not be decided, or its rules cannot be used;
// these never mix. A refusal is a [Decision] with OutcomeRefused. An error of the
// backend wraps [ErrUnavailable], and the rules say what then becomes of the
// call. A [RuleError] comes from New, not from a call.
package ratelimit
