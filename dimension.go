package ratelimit

import "unicode/utf8"

// Dimension returns the value of a part of the key of a rule, by their indices
// in Rules and in [Rule.Key], if the caller may be told it: a field of the
// request, which the caller sent, present, of at most 128 bytes and UTF-8.
// Integers are in decimal, enums by number, bool is 0 or 1. It returns false
// for every other part: addresses, headers and what functions of the server
// tell are not for clients, and are not kept.
func (d *Decision) Dimension(rule, part int) (value string, ok bool) {
	if d.plan == nil || d.Rules[rule].Key[part].Source != SourceField {
		return "", false
	}
	i := d.plan.keys[rule].parts[part]
	if i >= len(d.key.ends) { // a function panicked before this part
		return "", false
	}
	encoded := d.key.part(i)
	if encoded[0] != tagText || !utf8.Valid(encoded[2:]) {
		return "", false
	}
	return string(encoded[2:]), true
}
