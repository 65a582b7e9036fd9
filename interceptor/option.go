package interceptor

// An Option changes a default of [UnaryServer] and [StreamServer].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	quotaHeaders  bool
	quotaTrailers bool
}

// WithQuotaHeaders sets whether calls that are served tell their quota: in the
// response's headers, or in its trailers where headers were sent without it or
// the call failed. The default is true; without it a served call allocates
// nothing.
func WithQuotaHeaders(on bool) Option {
	return optionFunc(func(c *config) { c.quotaHeaders = on })
}

// WithQuotaTrailers sets whether calls that are refused tell their quota in
// trailers. The default is true. The delay and the details of the status are
// sent in any case.
func WithQuotaTrailers(on bool) Option {
	return optionFunc(func(c *config) { c.quotaTrailers = on })
}
