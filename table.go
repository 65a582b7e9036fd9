package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SupportsGenerated1 is named by generated files. If it is undefined, this
// module is older than the generated file: upgrade the module.
const SupportsGenerated1 = true

// A Table is the limits of methods, in any order. Generated code returns a new
// one for each service; [Merge] joins them. A method that is absent has no
// limit.
type Table []Method

// A Method is a method's limits.
type Method struct {
	// Name is the full method name as gRPC writes it: "/package.Service/Method".
	Name string
	// Rules are all that a call is charged against: its own or its service's
	// default ones, then those of the service. At most [MaxRules].
	Rules []Rule
	// Cost is what a call costs each rule; the zero value costs 1.
	Cost Cost
	// RefundOn are the status codes that give a unary call's charge back.
	RefundOn []Code
	// Exempt frees the method from the limiter's default rules too. An exempt
	// method has no rules.
	Exempt bool
}

// MaxRules is the most rules that may meet on one method.
const MaxRules = 32

// Merge joins tables, such as those of several services. The result shares
// their rules. It returns a [*RuleError] for the first method that stands in
// two tables, the first rule that cannot be used, and the first rules that share
// a bucket and do not agree.
func Merge(tables ...Table) (Table, error) {
	merged := slices.Concat(tables...)
	return merged, merged.Check()
}

// Check returns a [*RuleError] for the first fault of the table, or nil.
func (t Table) Check() error {
	shared := map[string]bucketUse{}
	seen := make(map[string]bool, len(t))
	for i := range t {
		m := &t[i]
		if seen[m.Name] {
			return &RuleError{Method: m.Name, Field: "method", Value: strconv.Quote(m.Name), Want: "want each method once"}
		}
		seen[m.Name] = true
		if err := m.Check(); err != nil {
			return err
		}
		for j := range m.Rules {
			if err := checkShared(shared, m.Name, &m.Rules[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check returns a [*RuleError] for the first fault of the method, or nil. That
// rules of different methods agree about a bucket is for [Table.Check].
func (m *Method) Check() error {
	fail := func(rule, field, value, want string) error {
		return &RuleError{Method: m.Name, Rule: rule, Field: field, Value: value, Want: want}
	}
	service, method, ok := splitMethod(m.Name)
	if !ok || service == "" || method == "" || strings.ContainsAny(service, "/#") || strings.Contains(method, "#") {
		return fail("", "method", strconv.Quote(m.Name), "want /package.Service/Method")
	}
	if m.Exempt && len(m.Rules) > 0 {
		return fail(m.Rules[0].Name, "exempt", "true", "want no rule beside it")
	}
	if len(m.Rules) > MaxRules {
		return fail("", "rules", strconv.Itoa(len(m.Rules)), fmt.Sprintf("want at most %d that meet on one method", MaxRules))
	}
	if m.Cost.Units < 0 || m.Cost.Units > MaxCost {
		return fail("", "cost", strconv.FormatInt(m.Cost.Units, 10), fmt.Sprintf("want 1 to %d", MaxCost))
	}
	if m.Cost.Path != "" && m.Cost.Field == nil {
		return fail("", "cost", strconv.Quote("field:"+m.Cost.Path), "want a Field function, which generated code has")
	}
	for _, code := range m.RefundOn {
		if int(code) >= len(codeNames) {
			return fail("", "refund_on", code.String(), "want a status code such as UNAVAILABLE or OK")
		}
	}
	for i := range m.Rules {
		r := &m.Rules[i]
		if err := r.check(); err != nil {
			err.Method = m.Name
			return err
		}
		if slices.ContainsFunc(m.Rules[:i], func(o Rule) bool { return o.Name == r.Name }) {
			return fail(r.Name, "name", strconv.Quote(r.Name), "want each name once among the rules that meet on one method")
		}
		if err := m.checkCost(r); err != nil {
			return err
		}
	}
	return nil
}

// checkCost returns an error if a call that costs what is stated can never pass
// r. Rules of the method that share its bucket and tell callers apart alike are
// charged to one bucket, and add up.
func (m *Method) checkCost(r *Rule) error {
	cost, most := max(m.Cost.Units, 1), r.Most()
	same := int64(0)
	for i := range m.Rules {
		o := &m.Rules[i]
		if o == r || o.Bucket != "" && o.Bucket == r.Bucket && slices.EqualFunc(o.Key, r.Key, samePart) {
			same++
		}
	}
	if m.Cost.Field != nil || most == 0 || cost*same <= most {
		return nil
	}
	want := fmt.Sprintf("want at most %d, the most that the rule can grant at once", most/same)
	if same > 1 {
		want = fmt.Sprintf("want at most %d: %d rules of the method charge bucket %q together, and it can grant %d at once", most/same, same, r.Bucket, most)
	}
	return &RuleError{Method: m.Name, Rule: r.Name, Field: "cost", Value: strconv.FormatInt(cost, 10), Want: want}
}

// samePart tells whether two key parts have the same value on every call.
func samePart(a, b KeyPart) bool { return a.Source == b.Source && a.Name == b.Name }

// splitMethod cuts "/package.Service/Method" into its service and method.
func splitMethod(name string) (service, method string, ok bool) {
	rest, ok := strings.CutPrefix(name, "/")
	cut := strings.LastIndexByte(rest, '/')
	if !ok || cut < 0 {
		return "", "", false
	}
	return rest[:cut], rest[cut+1:], true
}

// BucketName returns the name of the buckets that a rule charges on a method:
// its Bucket if it states one, else "/package.Service/Method#rule", or
// "/package.Service#rule" for a rule of [ScopeService]. A stated Bucket has
// neither a slash nor a number sign, so the forms cannot meet.
func BucketName(method string, r *Rule) string {
	switch {
	case r.Bucket != "":
		return r.Bucket
	case r.Scope == ScopeService:
		if service, _, ok := splitMethod(method); ok {
			method = "/" + service
		}
	}
	return method + "#" + r.Name
}

// A bucketUse is the first rule that was seen to use a bucket.
type bucketUse struct {
	method string
	rule   *Rule
}

// checkShared returns an error if r does not agree with the rule that was first
// seen to use the same bucket, and notes r if there was none.
func checkShared(shared map[string]bucketUse, method string, r *Rule) error {
	if r.Bucket == "" && r.Scope != ScopeService {
		return nil
	}
	bucket := BucketName(method, r)
	first, ok := shared[bucket]
	if !ok {
		shared[bucket] = bucketUse{method, r}
		return nil
	}
	field, value, want := differ(first.rule, r)
	if field == "" {
		return nil
	}
	return &RuleError{
		Method: method, Rule: r.Name, Field: field, Value: value,
		Want: fmt.Sprintf("want %s as in rule %q of %s, which shares bucket %q", want, first.rule.Name, first.method, bucket),
	}
}

// differ returns the first field in which r does not agree with first, its
// value in r and its value in first; field is "" if they agree.
func differ(first, r *Rule) (field, value, want string) {
	switch {
	case first.Algorithm != r.Algorithm:
		return "algorithm", r.Algorithm.String(), first.Algorithm.String()
	case first.Rate != r.Rate:
		return "rate", strconv.Quote(r.Rate.String()), strconv.Quote(first.Rate.String())
	case first.Most() != r.Most():
		return "burst", strconv.FormatInt(r.Most(), 10), strconv.FormatInt(first.Most(), 10)
	}
	same := func(a, b KeyPart) bool { return a.Source == b.Source && a.Class == b.Class }
	if !slices.EqualFunc(first.Key, r.Key, same) {
		return "key", quoteParts(r.Key), "parts of the same number and kind (" + quoteParts(first.Key) + ")"
	}
	return "", "", ""
}

var classNames = [...]string{ClassInteger: "integer", ClassEnum: "enum", ClassBool: "bool", ClassText: "text"}

// quoteParts names parts with the kind of each field: ["ip", "field:id" integer].
func quoteParts(parts []KeyPart) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range parts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(parts[i].String()))
		if c := parts[i].Class; c != ClassNone && int(c) < len(classNames) {
			b.WriteString(" " + classNames[c])
		}
	}
	b.WriteByte(']')
	return b.String()
}
