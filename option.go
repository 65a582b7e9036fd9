package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
)

// A KeyFunc tells the value of a key part for the call of ctx, and false if the
// call has none. It is called at most once a call, and is safe for concurrent
// use. If it panics, that call fails with [ErrKeyFunc].
type KeyFunc func(ctx context.Context) (value string, ok bool)

// An Option changes a default of [New].
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	principal  KeyFunc
	attrs      map[string]KeyFunc
	clientIP   func(context.Context) (netip.Addr, bool)
	proxies    []netip.Prefix
	ipv6Prefix int
	defaults   []Rule
	observer   Observer
	logger     *slog.Logger
}

// WithPrincipal gives the function that tells who a caller is, for rules with
// the key part "principal": a name or number, not a secret, since backends store
// values of up to 128 bytes as they are and longer ones as hashes. It reads what
// authentication put into the context:
// the limiter has to come after it. A second one is an error.
func WithPrincipal(f KeyFunc) Option {
	return optionFunc(func(c *config) error {
		if f == nil || c.principal != nil {
			return errors.New("ratelimit: WithPrincipal: there is no function or two, want one")
		}
		c.principal = f
		return nil
	})
}

// WithAttr gives the function for the key part "attr:NAME". A second one of the
// same name is an error.
func WithAttr(name string, f KeyFunc) Option {
	return optionFunc(func(c *config) error {
		part := KeyPart{Source: SourceAttr, Name: name}
		if err := part.checkName(); err != nil {
			return fmt.Errorf("ratelimit: WithAttr: name is %q, %w", name, err)
		}
		if f == nil || c.attrs[name] != nil {
			return fmt.Errorf("ratelimit: WithAttr: %q has no function or two, want one", name)
		}
		if c.attrs == nil {
			c.attrs = map[string]KeyFunc{}
		}
		c.attrs[name] = f
		return nil
	})
}

// WithTrustedProxies lists the networks of your own proxies. If the peer of a
// call is in one, the caller's address is read from its x-forwarded-for header:
// from the right, the first address that is in none of them. A malformed entry
// ends the walk, at the last address that was read. Without this option, and
// for other peers, the header is not looked at. Several of this option add up.
func WithTrustedProxies(networks ...netip.Prefix) Option {
	return optionFunc(func(c *config) error {
		for _, p := range networks {
			if !p.IsValid() {
				return fmt.Errorf("ratelimit: WithTrustedProxies: network is %v, want a valid prefix such as 10.0.0.0/8", p)
			}
			if p.Addr().Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
			}
			c.proxies = append(c.proxies, p)
		}
		return nil
	})
}

// WithClientIP gives a function that tells the caller's address, in place of
// the peer and [WithTrustedProxies]; the peer still counts where it answers
// false. realip.FromContext of go-grpc-middleware is one.
func WithClientIP(f func(context.Context) (netip.Addr, bool)) Option {
	return optionFunc(func(c *config) error {
		if f == nil {
			return errors.New("ratelimit: WithClientIP: function is nil, want one")
		}
		c.clientIP = f
		return nil
	})
}

// WithIPv6Prefix sets how many bits of an IPv6 address tell callers apart, 1 to
// 128. The default is 64, the smallest network that a caller is given.
func WithIPv6Prefix(bits int) Option {
	return optionFunc(func(c *config) error {
		if bits < 1 || bits > 128 {
			return fmt.Errorf("ratelimit: WithIPv6Prefix: bits is %d, want 1 to 128", bits)
		}
		c.ipv6Prefix = bits
		return nil
	})
}

// WithDefaultRules gives rules for the calls whose method has none in the table
// and is not exempt. A rule that names no Bucket has one for all these methods,
// *#NAME, which it shares with a default rule of that name in every other limiter
// on the same backend.
// gRPC's health and reflection services are left out: they are never limited,
// unless the table names them. The default is no rules: a method without rules
// is not limited. Several of this option add up.
func WithDefaultRules(rules ...Rule) Option {
	return optionFunc(func(c *config) error {
		c.defaults = append(c.defaults, rules...)
		return nil
	})
}

// WithObserver gives what sees each decision. The default is none. The last one
// counts.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *config) error {
		c.observer = o
		return nil
	})
}

// WithLogger sets where the limiter tells what an operator should know: for each
// method the first call that lacks a part of its key; for each outcome, and for
// bugs, the first call that was not decided, with the error; and from [New], a
// backend without a fallback. The default is slog.Default().
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error {
		if l == nil {
			return errors.New("ratelimit: WithLogger: logger is nil, want one")
		}
		c.logger = l
		return nil
	})
}
