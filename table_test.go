package ratelimit

import (
	"testing"
	"time"
)

func table(methods ...Method) Table { return methods }

func method(name string, rules ...Rule) Method { return Method{Name: name, Rules: rules} }

func TestMerge(t *testing.T) {
	a := table(method("/acme.Pay/Charge", good()))
	b := table(method("/acme.Pay/Refund", good()), Method{Name: "/acme.Pay/Ping", Exempt: true})
	got, err := Merge(a, b, nil)
	if err != nil || len(got) != 3 || got[2].Name != "/acme.Pay/Ping" {
		t.Fatalf("Merge = %v, %v; want three methods", got, err)
	}
}

func TestTableErrors(t *testing.T) {
	shared := func(change func(*Rule)) Rule {
		r := Rule{
			Name: "shared", Rate: Rate{10, time.Second}, Burst: 20, Bucket: "tenant",
			Key: []KeyPart{{Source: SourceField, Name: "id", Class: ClassText, Field: textField}},
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	service := func(count int64) Rule { return Rule{Name: "all", Rate: Rate{count, time.Second}, Scope: ScopeService} }
	two := func(change func(*Rule)) Table {
		return table(method("/a.S/One", shared(nil)), method("/a.T/Two", shared(change)))
	}
	sharing := ` as in rule "shared" of /a.S/One, which shares bucket "tenant"`
	for _, c := range []struct {
		table Table
		want  string
	}{
		{table(method("/a.S/M", good()), method("/a.S/M", good())), `/a.S/M: method is "/a.S/M", want each method once`},
		{table(method("a.S/M", good())), `a.S/M: method is "a.S/M", want /package.Service/Method`},
		{table(method("/a.S", good())), `/a.S: method is "/a.S", want /package.Service/Method`},
		{table(method("/a.S/", good())), `/a.S/: method is "/a.S/", want /package.Service/Method`},
		{table(method("/a.S/M", good(), good())), `/a.S/M: rule "burst": name is "burst", want each name once among the rules that meet on one method`},
		{table(Method{Name: "/a.S/M", Rules: []Rule{good()}, Exempt: true}), `/a.S/M: rule "burst": exempt is true, want no rule beside it`},
		{table(Method{Name: "/a.S/M", Rules: []Rule{good()}, Cost: Cost{Units: 11}}), `/a.S/M: rule "burst": cost is 11, want at most 10, the most that the rule can grant at once`},
		{table(method("/a/b.S/M", good())), `/a/b.S/M: method is "/a/b.S/M", want /package.Service/Method`},
		{table(method("/a.S/M#x", good())), `/a.S/M#x: method is "/a.S/M#x", want /package.Service/Method`},
		{table(Method{Name: "/a.S/M", Cost: Cost{Units: 6}, Rules: []Rule{
			{Name: "a", Rate: Rate{10, time.Second}, Bucket: "x"}, {Name: "b", Rate: Rate{10, time.Second}, Bucket: "x"},
		}}), `/a.S/M: rule "a": cost is 6, want at most 5: 2 rules of the method charge bucket "x" together, and it can grant 10 at once`},
		{table(Method{Name: "/a.S/M", Rules: []Rule{good()}, Cost: Cost{Units: -1}}), `/a.S/M: cost is -1, want 1 to 2147483647`},
		{table(Method{Name: "/a.S/M", Rules: []Rule{good()}, RefundOn: []Code{17}}), `/a.S/M: refund_on is Code(17), want a status code such as UNAVAILABLE or OK`},
		{table(Method{Name: "/a.S/M", Rules: []Rule{good()}, Cost: Cost{Path: "n"}}), `/a.S/M: cost is "field:n", want a Field function, which generated code has`},
		{table(method("/a.S/M", Rule{Name: "x"})), `/a.S/M: rule "x": rate is "0/0s", want a window of 1ms to 366d`},
		{table(Method{Name: "/a.S/M", Rules: make([]Rule, 33)}), `/a.S/M: rules is 33, want at most 32 that meet on one method`},
		{two(func(r *Rule) { r.Algorithm = LeakyBucket }), `/a.T/Two: rule "shared": algorithm is LEAKY_BUCKET, want TOKEN_BUCKET` + sharing},
		{two(func(r *Rule) { r.Rate.Count = 11 }), `/a.T/Two: rule "shared": rate is "11/s", want "10/s"` + sharing},
		{two(func(r *Rule) { r.Burst = 21 }), `/a.T/Two: rule "shared": burst is 21, want 20` + sharing},
		{two(func(r *Rule) { r.Key[0].Class = ClassInteger }), `/a.T/Two: rule "shared": key is ["field:id" integer], want parts of the same number and kind (["field:id" text])` + sharing},
		{two(func(r *Rule) { r.Key = nil }), `/a.T/Two: rule "shared": key is [], want parts of the same number and kind (["field:id" text])` + sharing},
		{two(func(r *Rule) { r.Key = []KeyPart{{Source: SourceIP}} }), `/a.T/Two: rule "shared": key is ["ip"], want parts of the same number and kind (["field:id" text])` + sharing},
		{table(method("/a.S/One", service(10)), method("/a.S/Two", service(20))), `/a.S/Two: rule "all": rate is "20/s", want "10/s" as in rule "all" of /a.S/One, which shares bucket "/a.S#all"`},
	} {
		_, err := Merge(c.table)
		if err == nil || err.Error() != c.want {
			t.Errorf("Merge(%+v)\n got %v\nwant %s", c.table, err, c.want)
		}
	}
}

func TestSharedBucketsAgree(t *testing.T) {
	plain := Rule{Name: "one", Rate: Rate{10, time.Second}, Bucket: "tenant", Key: []KeyPart{{Source: SourceMetadata, Name: "x-tenant"}}}
	stated := plain
	stated.Name, stated.Burst, stated.OnUnavailable = "two", 10, Deny
	stated.Key = []KeyPart{{Source: SourceMetadata, Name: "tenant-id"}}
	if _, err := Merge(table(method("/a.S/One", plain)), table(method("/a.T/Two", stated))); err != nil {
		t.Errorf("Merge: %v, want none: a burst that is left out is the count, and names of headers may differ", err)
	}
}

func TestBucketName(t *testing.T) {
	r := good()
	service := r
	service.Scope = ScopeService
	named := r
	named.Bucket = "tenant"
	for want, r := range map[string]Rule{"/a.b.S/M#burst": r, "/a.b.S#burst": service, "tenant": named} {
		if got := BucketName("/a.b.S/M", &r); got != want {
			t.Errorf("BucketName(%+v) = %q, want %q", r, got, want)
		}
	}
}
