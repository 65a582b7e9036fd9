package goredis

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/common.lua
var commonSource string

//go:embed lua/log.lua
var logSource string

//go:embed lua/bucket.lua
var bucketSource string

//go:embed lua/buckets.lua
var bucketsSource string

//go:embed lua/take.lua
var takeSource string

//go:embed lua/adjust.lua
var adjustSource string

// Scripts are sent by hash (EVALSHA), and in full only to a server that lacks
// them. bucketsScript decides what nearly all calls are, and bucketScript one of
// them that is alone and has one charge; takeScript decides every call.
var (
	bucketScript  = newScript(bucketSource)
	bucketsScript = newScript(bucketsSource)
	takeScript    = newScript(library() + takeSource)
	adjustScript  = newScript(library() + adjustSource)
)

// library is what stands before scripts for all algorithms.
func library() string {
	return commonSource + "local function log_functions()\n" + logSource + "end\n"
}

// A script is the source of one script and its hash.
type script struct{ source, hash string }

func newScript(source string) *script {
	return &script{source: source, hash: redis.NewScript(source).Hash()}
}

// A command is one call of a script. It is never sent again by the client: what
// it charges would be charged twice.
type command struct{ *redis.Cmd }

// NoRetry tells the client so.
func (command) NoRetry() bool { return true }
