package ratelimit

import (
	"slices"
	"strconv"
	"sync/atomic"
)

// A plan is a method's rules, prepared: what a decision needs and no more.
type plan struct {
	rules  []Rule
	limits []*Limit
	parts  []planPart // each part that any rule's key has, once
	keys   []planKey  // of the rules, one for each
	joins  [][]int    // the parts of each key of several
	cost   Cost
	refund uint32        // bit c: code c gives the charge back
	deny   bool          // some rule says Deny
	policy string        // value of the RateLimit-Policy field
	missed atomic.Uint64 // bit i: a call lacked part i, and that was logged
}

// A planPart is a key part with the function that tells it.
type planPart struct {
	KeyPart
	function KeyFunc // for SourcePrincipal and SourceAttr
}

// A planKey is which parts make up a rule's key, in order.
type planKey struct {
	parts []int
	mask  uint64 // the same as a set
	at    int    // the key's index in the key buffer, -1 without parts
}

func (p *plan) refunds(code Code) bool {
	return code < 32 && p.refund&(1<<code) != 0
}

// maxParts is how many different key parts the rules of one method may have, so
// that a set of them is one word.
const maxParts = 64

// newPlan prepares the rules of a method that has been checked. bucketOf names
// a rule's buckets.
func newPlan(m *Method, c *config, bucketOf func(*Rule) string) (*plan, error) {
	p := &plan{rules: m.Rules, cost: m.Cost}
	for _, code := range m.RefundOn {
		p.refund |= 1 << code
	}
	for i := range m.Rules {
		r := &m.Rules[i]
		limit, err := NewLimit(bucketOf(r), *r)
		if err != nil {
			return nil, err
		}
		p.limits = append(p.limits, limit)
		p.deny = p.deny || r.OnUnavailable == Deny
		key, err := p.planKey(m, r, c)
		if err != nil {
			return nil, err
		}
		p.keys = append(p.keys, key)
	}
	p.placeKeys()
	p.policy = formatPolicy(m.Rules)
	return p, nil
}

// placeKeys says where the key buffer has each rule's key: a key of one part is
// that part, keys of several are joined behind the parts.
func (p *plan) placeKeys() {
	for i := range p.keys {
		switch key := &p.keys[i]; len(key.parts) {
		case 0:
			key.at = -1
		case 1:
			key.at = key.parts[0]
		default:
			key.at = len(p.parts) + len(p.joins)
			p.joins = append(p.joins, key.parts)
		}
	}
}

// cloneRules returns a copy of rules that shares nothing that can be changed.
func cloneRules(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Key = slices.Clone(rules[i].Key)
	}
	return rules
}

func (p *plan) planKey(m *Method, r *Rule, c *config) (planKey, error) {
	var key planKey
	for _, part := range r.Key {
		i := slices.IndexFunc(p.parts, func(o planPart) bool { return o.Source == part.Source && o.Name == part.Name })
		if i < 0 {
			function, want := c.keyFunc(&part)
			if want == "" && len(p.parts) == maxParts {
				want = "want at most " + strconv.Itoa(maxParts) + " different parts on one method"
			}
			if want != "" {
				return planKey{}, &RuleError{Method: m.Name, Rule: r.Name, Field: "key", Value: strconv.Quote(part.String()), Want: want}
			}
			i = len(p.parts)
			p.parts = append(p.parts, planPart{part, function})
		}
		key.parts = append(key.parts, i)
		key.mask |= 1 << i
	}
	return key, nil
}

// keyFunc returns the function that tells a part, or what was wanted of New if
// it was not given one.
func (c *config) keyFunc(part *KeyPart) (f KeyFunc, want string) {
	switch part.Source {
	case SourcePrincipal:
		if c.principal == nil {
			return nil, "want WithPrincipal among the options of New"
		}
		return c.principal, ""
	case SourceAttr:
		if c.attrs[part.Name] == nil {
			return nil, "want WithAttr(" + strconv.Quote(part.Name) + ", ...) among the options of New"
		}
		return c.attrs[part.Name], ""
	}
	return nil, ""
}

// fallsBack tells whether the plan's calls may be decided by a fallback.
func (p *plan) fallsBack() bool {
	return slices.ContainsFunc(p.rules, func(r Rule) bool { return r.OnUnavailable == Local })
}

// readsRequest tells whether a key or the cost comes from the request message.
func (p *plan) readsRequest() bool {
	return p.cost.Field != nil || slices.ContainsFunc(p.parts, func(part planPart) bool { return part.Source == SourceField })
}
