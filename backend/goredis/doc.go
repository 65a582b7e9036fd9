// Package goredis decides charges in Redis, through go-redis v9: one server,
// Sentinel, Cluster, Valkey and what else speaks their protocol.
//
// # Keys
//
// A bucket is one key:
//
//	rl:{=alice}:/acme.pay.v1.Payments/Charge#daily:t
//
// the namespace ([WithNamespace]); the caller's key parts, as the hash tag, so
// that all buckets of a caller are on one slot; the bucket's name; and a letter
// for the algorithm: t TOKEN_BUCKET, l LEAKY_BUCKET, f FIXED_WINDOW, s
// SLIDING_WINDOW, g SLIDING_LOG. Parts are joined by commas. A part is = and a
// text, @ and an address or nothing for a peer without one, - for one that the
// call lacks, # and the hash of a long text, * and the hash of a header. Bytes
// other than letters, digits and ._-@+/: are written %XX. A rule without key
// parts has ~ and its bucket's name as tag.
//
// Every key expires by itself, a second after nothing is used of it or a little
// later.
package goredis
