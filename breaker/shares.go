package breaker

import (
	"sync"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// shares remember each limit's share, so that a call makes none.
type shares struct {
	recent [recentShares]atomic.Pointer[share] // by hash
	known  sync.Map                            // *ratelimit.Limit to *share
	size   atomic.Int64                        // of known, about
}

const (
	recentShares = 256
	// mostShares bounds what is remembered: a table that is loaded again has new
	// limits, and nobody says when the old ones are met no more.
	mostShares = 1 << 14
)

type share struct {
	of        *ratelimit.Limit
	instances int
	limit     *ratelimit.Limit
}

// of returns the part of a limit that one of some instances enforces.
func (s *shares) of(l *ratelimit.Limit, instances int) *ratelimit.Limit {
	if instances < 2 {
		return l
	}
	recent := &s.recent[l.Hash()%recentShares]
	if k := recent.Load(); k != nil && k.of == l && k.instances == instances {
		return k.limit
	}
	k := s.find(l, instances)
	recent.Store(k)
	return k.limit
}

func (s *shares) find(l *ratelimit.Limit, instances int) *share {
	known, ok := s.known.Load(l)
	if ok {
		if k := known.(*share); k.instances == instances {
			return k
		}
	} else if s.size.Add(1) > mostShares {
		s.known.Clear()
		s.size.Store(1)
	}
	k := &share{l, instances, l.Share(instances)}
	s.known.Store(l, k)
	return k
}
