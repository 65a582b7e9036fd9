// Package redistest starts real redis-server processes for tests, alone, as a
// cluster and under Sentinel, on loopback ports that nobody else has, and
// breaks them in every way that a network and an operator can: killed,
// stopped, silent, slow, refusing, full, loading, busy, failing over.
//
// Nothing is left behind: what a test starts ends with the test and, on Linux,
// with the test's process however that ends. No file outside of temporary
// directories is read or written, and no server but the ones started here is
// ever talked to.
//
// The server is the one that the environment variable REDIS_SERVER names, or
// else redis-server, redis-check-rdb (the same program, under the name that
// Debian's package redis-tools gives it) or valkey-server in PATH. Without one
// a test is skipped or, when the environment variable CI is true, fails.
package redistest
