package goredis

import (
	"sync"
	"time"
)

// A timerPool keeps timers that nobody waits for.
type timerPool struct{ pool sync.Pool }

func (p *timerPool) get(d time.Duration) *time.Timer {
	if t, _ := p.pool.Get().(*time.Timer); t != nil {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

func (p *timerPool) put(t *time.Timer) {
	t.Stop()
	p.pool.Put(t)
}
