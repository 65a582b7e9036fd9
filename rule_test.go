package ratelimit

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// good is a rule that Check accepts, for tests that break it.
func good() Rule { return Rule{Name: "burst", Rate: Rate{10, time.Second}} }

func textField(dst []byte, request any) ([]byte, bool) {
	s, ok := request.(string)
	return append(dst, s...), ok
}

func TestRuleCheck(t *testing.T) {
	for name, change := range map[string]func(*Rule){
		"plain":         func(*Rule) {},
		"longest name":  func(r *Rule) { r.Name = "a" + strings.Repeat("z", 62) },
		"marks in name": func(r *Rule) { r.Name = "a-b_9" },
		"always refuse": func(r *Rule) { r.Rate.Count = 0 },
		"largest burst": func(r *Rule) { r.Burst = MaxCount },
		"leaky burst":   func(r *Rule) { r.Algorithm, r.Burst = LeakyBucket, 1 },
		"largest log":   func(r *Rule) { r.Algorithm, r.Rate.Count = SlidingLog, MaxLogCount },
		"dotted bucket": func(r *Rule) { r.Bucket = "acme.tenant-1" },
		"every part": func(r *Rule) {
			r.Key = []KeyPart{
				{Source: SourceIP},
				{Source: SourcePrincipal},
				{Source: SourceMetadata, Name: "x-api-key"},
				{Source: SourceField, Name: "a.b_c.D9", Class: ClassText, Field: textField},
				{Source: SourceAttr, Name: "userTier"},
			}
		},
	} {
		r := good()
		change(&r)
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v, want no error", name, err)
		}
	}
}

func TestRuleCheckErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Rule)
		want   string
	}{
		{func(r *Rule) { r.Name = "" }, `rule: name is "", want [a-z][a-z0-9_-]{0,62}`},
		{func(r *Rule) { r.Name = "Burst" }, `rule "Burst": name is "Burst", want [a-z][a-z0-9_-]{0,62}`},
		{func(r *Rule) { r.Name = "a.b" }, `rule "a.b": name is "a.b", want [a-z][a-z0-9_-]{0,62}`},
		{func(r *Rule) { r.Name = strings.Repeat("a", 64) }, `rule "` + strings.Repeat("a", 64) + `": name is "` + strings.Repeat("a", 64) + `", want [a-z][a-z0-9_-]{0,62}`},
		{func(r *Rule) { r.Algorithm = algorithms }, `rule "burst": algorithm is Algorithm(5), want one of TOKEN_BUCKET, LEAKY_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_LOG`},
		{func(r *Rule) { r.Rate = Rate{} }, `rule "burst": rate is "0/0s", want a window of 1ms to 366d`},
		{func(r *Rule) { r.Rate.Count = -1 }, `rule "burst": rate is "-1/s", want a count of 0 to 1000000000000`},
		{func(r *Rule) { r.Rate.Window = 1500 * time.Microsecond }, `rule "burst": rate is "10/1.5ms", want a window of whole milliseconds`},
		{func(r *Rule) { r.Rate.Window = -time.Second }, `rule "burst": rate is "10/-1s", want a window of 1ms to 366d`},
		{func(r *Rule) { r.Rate.Count = 1e9 + 1 }, `rule "burst": rate is "1000000001/s", want at most 1000000000 a second`},
		{func(r *Rule) { r.Algorithm, r.Rate.Count = SlidingLog, 10_001 }, `rule "burst": rate is "10001/s", want a count of at most 10000 for SLIDING_LOG`},
		{func(r *Rule) { r.Burst = -1 }, `rule "burst": burst is -1, want 1 to 1000000000000`},
		{func(r *Rule) { r.Burst = MaxCount + 1 }, `rule "burst": burst is 1000000000001, want 1 to 1000000000000`},
		{func(r *Rule) { r.Algorithm, r.Burst = FixedWindow, 10 }, `rule "burst": burst is 10, want none: only TOKEN_BUCKET and LEAKY_BUCKET take a burst`},
		{func(r *Rule) { r.Rate.Count, r.Burst = 0, 5 }, `rule "burst": burst is 5, want none beside a rate of 0, which refuses every call`},
		{func(r *Rule) { r.Key = []KeyPart{{}} }, `rule "burst": key is "Source(0):", want ip, principal, metadata:NAME, field:PATH or attr:NAME`},
		{func(r *Rule) { r.Key = []KeyPart{{Source: SourceIP}, {Source: SourceIP}} }, `rule "burst": key is "ip", want each part once`},
		{func(r *Rule) { r.Key = []KeyPart{{Source: SourceIP, Name: "x"}} }, `rule "burst": key is "ip:x", want no name after ip`},
		{func(r *Rule) { r.Key = []KeyPart{{Source: SourceMetadata, Name: "X-Key"}} }, `rule "burst": key is "metadata:X-Key", want metadata:NAME with letters, digits, '-', '_' and '.'`},
		{func(r *Rule) { r.Key = []KeyPart{{Source: SourceField, Name: "id", Class: ClassText}} }, `rule "burst": key is "field:id", want a Field function for field:PATH, and for nothing else`},
		{func(r *Rule) { r.Key = []KeyPart{{Source: SourceField, Name: "id", Field: textField}} }, `rule "burst": key is "field:id", want a Class for field:PATH, and for nothing else`},
		{func(r *Rule) { r.Bucket = "a/b" }, `rule "burst": bucket is "a/b", want [a-z][a-z0-9_.-]{0,62}`},
		{func(r *Rule) { r.Scope = 2 }, `rule "burst": scope is 2, want ScopeMethod or ScopeService`},
		{func(r *Rule) { r.OnUnavailable = 3 }, `rule "burst": on_unavailable is OnUnavailable(3), want LOCAL, ALLOW or DENY`},
	} {
		r := good()
		c.change(&r)
		err := r.Check()
		if err == nil || err.Error() != c.want {
			t.Errorf("Check(%+v)\n got %v\nwant %s", r, err, c.want)
		}
		if rule := (*RuleError)(nil); !errors.As(err, &rule) {
			t.Errorf("Check(%+v): error is %T, want *RuleError", r, err)
		}
	}
}

func TestMost(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		want int64
	}{
		{Rule{Rate: Rate{10, time.Second}}, 10},
		{Rule{Rate: Rate{10, time.Second}, Burst: 3}, 3},
		{Rule{Rate: Rate{10, time.Second}, Burst: 30, Algorithm: LeakyBucket}, 30},
		{Rule{Rate: Rate{10, time.Second}, Algorithm: FixedWindow}, 10},
		{Rule{Rate: Rate{0, time.Second}}, 0},
	} {
		if got := c.rule.Most(); got != c.want {
			t.Errorf("Most(%+v) = %d, want %d", c.rule, got, c.want)
		}
	}
}

func TestParseKeyPart(t *testing.T) {
	for text, want := range map[string]KeyPart{
		"ip":                   {Source: SourceIP},
		"principal":            {Source: SourcePrincipal},
		"metadata:X-Api-Key":   {Source: SourceMetadata, Name: "x-api-key"},
		"field:order.buyer_id": {Source: SourceField, Name: "order.buyer_id"},
		"attr:tier":            {Source: SourceAttr, Name: "tier"},
		// Of these gRPC shows the values, although the names look like its own.
		"metadata:user-agent":                 {Source: SourceMetadata, Name: "user-agent"},
		"metadata:content-type":               {Source: SourceMetadata, Name: "content-type"},
		"metadata:grpc-accept-encoding":       {Source: SourceMetadata, Name: "grpc-accept-encoding"},
		"metadata:grpc-previous-rpc-attempts": {Source: SourceMetadata, Name: "grpc-previous-rpc-attempts"},
		"metadata:grpc-trace-bin":             {Source: SourceMetadata, Name: "grpc-trace-bin"},
	} {
		got, err := ParseKeyPart(text)
		if err != nil || got.Source != want.Source || got.Name != want.Name {
			t.Errorf("ParseKeyPart(%q) = %v, %v; want %v", text, got, err, want)
		}
		if again, err := ParseKeyPart(got.String()); err != nil || again.Name != got.Name {
			t.Errorf("ParseKeyPart(%q) = %v, %v; want %v again", got.String(), again, err, got)
		}
	}
	for _, text := range []string{
		"", "IP", "ip:", "ip:x", "principal:x", "metadata", "metadata:", "metadata:a b", "metadata::authority",
		"field", "field:", "field:a..b", "field:.a", "field:a.", "field:1a", "field:a-b", "attr", "attr:", "attr:9", "header:x", " ip",
	} {
		if got, err := ParseKeyPart(text); err == nil || !strings.HasPrefix(err.Error(), "want ") {
			t.Errorf("ParseKeyPart(%q) = %v, %v; want an error that says what was wanted", text, got, err)
		}
	}
}

// TestHiddenHeaders has names of which gRPC shows no values.
func TestHiddenHeaders(t *testing.T) {
	for _, name := range []string{"grpc-timeout", "Grpc-Timeout", "grpc-encoding", "grpc-message", "grpc-message-type", "grpc-status", "te", "TE", "host", "connection"} {
		_, err := ParseKeyPart("metadata:" + name)
		if err == nil || err.Error() != "want a header that servers see: gRPC keeps this one to itself" {
			t.Errorf("ParseKeyPart(%q): error %v, want one that says that gRPC keeps the header", "metadata:"+name, err)
		}
	}
}

func TestParseCost(t *testing.T) {
	for text, want := range map[string]Cost{"1": {Units: 1}, "2147483647": {Units: MaxCost}, "field:a.b": {Path: "a.b"}} {
		got, err := ParseCost(text)
		if err != nil || got.Units != want.Units || got.Path != want.Path {
			t.Errorf("ParseCost(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "01", "1.5", "2147483648", "99999999999999999999", "field:", "field:a b", "items"} {
		if got, err := ParseCost(text); err == nil || !strings.HasPrefix(err.Error(), "want ") {
			t.Errorf("ParseCost(%q) = %v, %v; want an error that says what was wanted", text, got, err)
		}
	}
}

func TestCostOf(t *testing.T) {
	read := Cost{Field: func(request any) int64 { return request.(int64) }}
	for _, c := range []struct {
		cost    Cost
		request int64
		want    int64
	}{
		{Cost{}, 7, 1}, {Cost{Units: 5}, 7, 5}, {read, 7, 7}, {read, 0, 1}, {read, -9, 1}, {read, 1 << 40, MaxCost},
	} {
		if got := c.cost.of(c.request); got != c.want {
			t.Errorf("cost of %d by %+v is %d, want %d", c.request, c.cost, got, c.want)
		}
	}
}

func TestCodes(t *testing.T) {
	for i := range codeNames {
		if got, err := ParseCode(Code(i).String()); err != nil || got != Code(i) {
			t.Errorf("ParseCode(%q) = %d, %v; want %d", Code(i), got, err, i)
		}
	}
	all := "want one of " + strings.Join(codeNames[:], ", ")
	near := func(name string) string { return "want " + name + ", a status code as gRPC writes it" }
	for _, c := range []struct{ text, want string }{
		{"CANCELED", near("CANCELLED")},
		{"unavailable", near("UNAVAILABLE")},
		{"Unavailable", near("UNAVAILABLE")},
		{"UNAVAILABLE ", near("UNAVAILABLE")},
		{"UNVAILABE", near("UNAVAILABLE")},
		{"DeadlineExceeded", near("DEADLINE_EXCEEDED")},
		{"deadline-exceeded", near("DEADLINE_EXCEEDED")},
		{"ok", near("OK")},
		{"14", near("UNAVAILABLE")},
		{"0", near("OK")},
		{"", all},
		{"O", all},
		{"17", all},
		{"-1", all},
		{"Code(17)", all},
		{"TOO_MANY_REQUESTS", all},
		{strings.Repeat("UNAVAILABLE", 1<<16), all},
	} {
		if got, err := ParseCode(c.text); err == nil || err.Error() != c.want {
			t.Errorf("ParseCode(%.20q) = %v, %v; want the error %q", c.text, got, err, c.want)
		}
	}
}
