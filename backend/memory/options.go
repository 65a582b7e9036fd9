package memory

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of the options, and their defaults.
const (
	defaultMaxKeys       = 1 << 20
	defaultMaxLogEntries = 1 << 20
	mostKeys             = 1 << 30
	mostLogEntries       = 1 << 27
)

// An Option changes a default of [New].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	maxKeys       int
	maxLogEntries int
	clock         func() time.Time
	clockGiven    bool
}

// WithMaxKeys bounds how many buckets are kept: past n, for each new one another
// is forgotten, one of a few that happen to be looked at, the nearest to empty
// of charges first. n is 1 to 1<<30; the default is 1<<20. A bucket of
// TOKEN_BUCKET or LEAKY_BUCKET takes 40 bytes or less, one of another algorithm
// 65 or less, those of SLIDING_LOG plus their entries.
//
// Buckets that are empty of charges make room before any that counts, wherever
// they are, with two exceptions. Where most of a full table was charged again
// since it was last looked at, up to about n/16384 that count (64 of the default,
// 1 of 16384 or fewer) may be forgotten before all has been looked at anew. And
// what other calls hold at that moment is passed over.
func WithMaxKeys(n int) Option {
	return optionFunc(func(c *config) { c.maxKeys = n })
}

// WithMaxLogEntries bounds how many grants all SLIDING_LOG buckets keep
// together, at 32 bytes each; a sixteenth of them may be set aside. Past n a
// grant is kept with the one before it, as if both were made now, which is never
// in the caller's favour; and a bucket that has none yet takes the place of
// another. Grants that count no more make room before that, as WithMaxKeys says
// of buckets. n is 1 to 1<<27; the default is 1<<20. Fewer than the shards count as
// one for each of them: they are 64 to 256, fewer for fewer than 1024 keys, and
// more for more than a million. The memory is used again as grants expire, and
// is given back when there are none.
func WithMaxLogEntries(n int) Option {
	return optionFunc(func(c *config) { c.maxLogEntries = n })
}

// WithClock makes now the clock, for tests. now may go back; it is called with
// locks held, so it must not call the backend. Times are counted from 1970 to
// 2255, those outside as its first or last microsecond. The default is the wall
// clock as it was in [New], going on monotonically: a wall clock that is set
// later moves nothing.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(c *config) { c.clock, c.clockGiven = now, true })
}

// check returns what is wrong with c.
func (c *config) check() error {
	if c.maxKeys < 1 || c.maxKeys > mostKeys {
		return fmt.Errorf("memory: WithMaxKeys is %d, want 1 to %d", c.maxKeys, mostKeys)
	}
	if c.maxLogEntries < 1 || c.maxLogEntries > mostLogEntries {
		return fmt.Errorf("memory: WithMaxLogEntries is %d, want 1 to %d", c.maxLogEntries, mostLogEntries)
	}
	if c.clockGiven && c.clock == nil {
		return errors.New("memory: WithClock is nil, want a function")
	}
	return nil
}
