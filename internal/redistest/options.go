package redistest

// An Option changes what is started.
type Option func(*options)

type options struct {
	config    []string
	password  string
	masters   int
	replicas  int
	sentinels int
}

func newOptions(opts []Option) options {
	o := options{masters: 3, replicas: 1, sentinels: 3}
	for _, apply := range opts {
		apply(&o)
	}
	return o
}

// Config adds lines to the configuration of every server, such as
// "maxmemory 2mb". They win over the defaults: no persistence, loopback only,
// replicas served without delay. Sentinels do not get them.
func Config(lines ...string) Option {
	return func(o *options) { o.config = append(o.config, lines...) }
}

// Password asks for a password, between replicas and their master too.
func Password(password string) Option {
	return func(o *options) { o.password = password }
}

// Masters is how many masters a cluster has. The default is 3.
func Masters(n int) Option {
	return func(o *options) { o.masters = n }
}

// Replicas is how many replicas each master has. The default is 1.
func Replicas(n int) Option {
	return func(o *options) { o.replicas = n }
}

// Sentinels is how many sentinels watch a master. The default is 3.
func Sentinels(n int) Option {
	return func(o *options) { o.sentinels = n }
}
