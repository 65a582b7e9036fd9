package goredis

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// loudEvery is how often calls that meet a bug are logged.
const loudEvery = 10 * time.Second

// loud logs what waiting does not cure: a fallback would hide it.
type loud struct{ next atomic.Int64 } // when the next one is logged, in ns since processStart

func (l *loud) tell(logger *slog.Logger, err error) {
	if !errors.Is(err, ratelimit.ErrBackendBug) {
		return
	}
	now, next := int64(time.Since(processStart)), l.next.Load()
	if now >= next && l.next.CompareAndSwap(next, now+int64(loudEvery)) {
		logger.Error("goredis: Redis does not decide, and waiting will not help", "error", err, "remedy", remedyOf(err, "see the error"))
	}
}

// remedyOf returns what to do about an error of Redis, or otherwise.
func remedyOf(err error, otherwise string) string {
	switch text := err.Error(); {
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"):
		return "give the URL, or WithCredentials, the user and the password that Redis has"
	case strings.Contains(text, "WRONGTYPE"):
		return "delete the key, or give WithNamespace a name that nothing else uses"
	case strings.Contains(text, "DB index"):
		return "give the URL a database that Redis has"
	}
	return otherwise
}
