// Package rivals asks the limiters of other libraries for one unit by key, each
// in the way its users do, with whatever that answers.
package rivals

import "time"

// A Limiter decides by key.
type Limiter interface {
	// Take asks for one unit, and tells whether it was granted. The limiter may
	// keep the key.
	Take(key string) bool
	// Close ends its goroutines.
	Close()
}

// A Limit is Count each Window for each key, at most Burst at once. Libraries
// that count in windows and know no burst grant Burst in each Period.
type Limit struct {
	Count  int
	Window time.Duration
	Burst  int
	// Period is also after how long without a call a key may be forgotten, by
	// libraries that are told.
	Period time.Duration
}

// A Rival makes limiters of one library.
type Rival struct {
	Name   string
	Module string
	// Forgets tells whether keys are dropped when they have been idle.
	Forgets bool
	New     func(Limit) (Limiter, error)
}

// All are the rivals, in the order of the reports.
var All = []Rival{
	{"go-limiter", "github.com/sethvargo/go-limiter", true, newGoLimiter},
	{"map+x/time/rate", "golang.org/x/time", false, newTimeRate},
	{"throttled", "github.com/throttled/throttled/v2", false, newThrottled},
	{"httprate", "github.com/go-chi/httprate", true, newHTTPRate},
	{"ulule", "github.com/ulule/limiter/v3", true, newUlule},
}

// Modules are the paths of the rivals' modules.
func Modules() []string {
	paths := make([]string, len(All))
	for i := range All {
		paths[i] = All[i].Module
	}
	return paths
}
