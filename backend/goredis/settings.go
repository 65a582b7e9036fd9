package goredis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A judgement is what is wrong with a client's settings.
type judgement struct {
	// broken are those with which decisions would not end, or would not begin
	// again, or would be made elsewhere than on a master.
	broken []fault
	// slow are those with which an outage lasts longer than it has to.
	slow []fault
}

// A fault is one setting.
type fault struct{ setting, value, want string }

func (f fault) String() string { return f.setting + " is " + f.value + ", want " + f.want }

// refuse returns an error that names all faults, or nil if there are none.
func refuse(faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	return errors.New("settings of the client: " + joinFaults(faults))
}

func joinFaults(faults []fault) string {
	texts := make([]string, 0, len(faults))
	for _, f := range faults {
		texts = append(texts, f.String())
	}
	return strings.Join(texts, "; ")
}

// longestSocketTimeout is how long a server that went silent may keep decisions
// from the next one, without a warning.
const longestSocketTimeout = time.Second

// judgeOptions judges the settings of a client of one server, for decisions that
// take up to budget. They may be as a caller wrote them, but without zeros, or as
// a client shows them.
//
// Not all that looks dangerous is: what a decision sends is never sent again
// whatever MaxRetries says, callers wait for the socket only within their budget,
// and a dial is not theirs.
func judgeOptions(o *redis.Options, budget time.Duration) (j judgement) {
	j.timeout("ReadTimeout", o.ReadTimeout, budget, o.ContextTimeoutEnabled)
	j.timeout("WriteTimeout", o.WriteTimeout, budget, o.ContextTimeoutEnabled)
	j.common(o.DialerRetries, o.PoolSize)
	j.notifications(o.MaintNotificationsConfig, o.Protocol)
	return j
}

// judgeCluster judges the settings of a cluster's client, as judgeOptions does.
func judgeCluster(o *redis.ClusterOptions, budget time.Duration) (j judgement) {
	j.timeout("ReadTimeout", o.ReadTimeout, budget, o.ContextTimeoutEnabled)
	j.timeout("WriteTimeout", o.WriteTimeout, budget, o.ContextTimeoutEnabled)
	j.replicas(o.ReadOnly, o.RouteByLatency, o.RouteRandomly)
	j.common(o.DialerRetries, o.PoolSize)
	j.notifications(o.MaintNotificationsConfig, o.Protocol)
	if o.MaxRedirects < 0 {
		j.slow = append(j.slow, fault{"MaxRedirects", "none", "3: a slot that moves is away until it has moved"})
	}
	return j
}

// judgeFailover judges the settings of a client that finds its server through
// sentinels.
func judgeFailover(o *redis.FailoverOptions, budget time.Duration) (j judgement) {
	j.timeout("ReadTimeout", o.ReadTimeout, budget, o.ContextTimeoutEnabled)
	j.timeout("WriteTimeout", o.WriteTimeout, budget, o.ContextTimeoutEnabled)
	j.replicas(false, o.RouteByLatency, o.RouteRandomly)
	if o.ReplicaOnly {
		j.broken = append(j.broken, fault{"ReplicaOnly", "true", "false: decisions are made on masters"})
	}
	j.common(o.DialerRetries, o.PoolSize)
	return j
}

// timeout judges a timeout of the socket. Without one, two batches that a server
// swallowed are waited for until the system gives the connections up, and no
// decision is made meanwhile.
func (j *judgement) timeout(name string, d, budget time.Duration, byContext bool) {
	longest := max(longestSocketTimeout, budget)
	switch {
	case d == 0 && byContext: // the batch's own deadline ends it
	case d <= 0:
		j.broken = append(j.broken, fault{name, "none", longest.String() + " or less: a server that went silent would be waited for without end"})
	case d > longest && !byContext:
		j.slow = append(j.slow, fault{name, d.String(), longest.String() + " or less: so long no decision is made after a server went silent"})
	case d < budget:
		j.slow = append(j.slow, fault{name, d.String(), budget.String() + " or more: an answer within the budget would come too late"})
	}
}

// replicas judges settings that send commands to replicas, whose state is not
// the newest.
func (j *judgement) replicas(readOnly, byLatency, randomly bool) {
	for _, s := range []struct {
		name string
		on   bool
	}{{"ReadOnly", readOnly}, {"RouteByLatency", byLatency}, {"RouteRandomly", randomly}} {
		if s.on {
			j.broken = append(j.broken, fault{s.name, "true", "false: decisions are made on masters"})
		}
	}
}

func (j *judgement) common(dialTries, pool int) {
	if dialTries > 1 {
		j.slow = append(j.slow, fault{"DialerRetries", strconv.Itoa(dialTries), "1: a refused connection would look like a silent one"})
	}
	if pool < flightsPerServer+1 {
		j.slow = append(j.slow, fault{"PoolSize", strconv.Itoa(pool), strconv.Itoa(flightsPerServer+1) + " or more: adjustments would wait for decisions"})
	}
}

// notifications judges maintenance notifications, which make the timeouts of the
// socket longer while a server is handed over.
func (j *judgement) notifications(c *maintnotifications.Config, protocol int) {
	if protocol == 2 || c != nil && c.Mode == maintnotifications.ModeDisabled {
		return
	}
	mode := maintnotifications.ModeAuto
	if c != nil && c.Mode != "" {
		mode = c.Mode
	}
	j.slow = append(j.slow, fault{"MaintNotificationsConfig.Mode", string(mode), "disabled: it may make timeouts longer"})
}

// judgeClient judges the settings of a client. It returns an error for a kind of
// client that nobody can decide through, or that nobody has tried.
func judgeClient(client redis.UniversalClient, budget time.Duration) (judgement, error) {
	switch client := client.(type) {
	case *redis.Client:
		if client != nil {
			return judgeOptions(client.Options(), budget), nil
		}
	case *redis.ClusterClient:
		if client == nil {
			break
		}
		o := *client.Options()
		if o.MaxRedirects == 0 { // as it shows none; 0 before it was built is the default
			o.MaxRedirects = -1
		}
		return judgeCluster(&o, budget), nil
	case *redis.Ring:
		return judgement{}, errors.New("client is a *redis.Ring, want a *redis.Client or *redis.ClusterClient: " +
			"a ring forgets what was used when its servers change")
	}
	return judgement{}, fmt.Errorf("client is a %T, want a *redis.Client or *redis.ClusterClient that is not nil", client)
}
