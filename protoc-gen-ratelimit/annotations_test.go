package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/protolimit/ratelimit"
	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// TestTablesSayWhatIsAnnotated compares the table of each golden file with the
// annotations, read again from the descriptors that are linked into the test.
func TestTablesSayWhatIsAnnotated(t *testing.T) {
	got := map[string]string{}
	for _, m := range merged(t) {
		got[m.Name] = tableText(m)
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "golden.") {
			return true
		}
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				name := fmt.Sprintf("/%s/%s", s.FullName(), m.Name())
				if want := annotationText(t, s, m); got[name] != want {
					t.Errorf("%s\ngot  %s\nwant %s", name, got[name], want)
				}
				delete(got, name)
			}
		}
		return true
	})
	for name := range got {
		t.Errorf("%s is in a table and in no file", name)
	}
}

// tableText writes what a table says of a method; "" if that is nothing.
func tableText(m ratelimit.Method) string {
	var parts []string
	for _, r := range m.Rules {
		var keys []string
		for _, k := range r.Key {
			keys = append(keys, k.String())
		}
		parts = append(parts, fmt.Sprintf("rule %s %s burst %d %s %q bucket %q scope %d %s",
			r.Name, r.Rate, r.Burst, r.Algorithm, keys, r.Bucket, r.Scope, r.OnUnavailable))
	}
	cost := ""
	switch {
	case m.Cost.Field != nil:
		cost = "field:" + m.Cost.Path
	case m.Cost.Units != 0:
		cost = strconv.FormatInt(m.Cost.Units, 10)
	}
	return methodText(parts, cost, fmt.Sprint(m.RefundOn), m.Exempt)
}

func methodText(rules []string, cost, refundOn string, exempt bool) string {
	if len(rules) == 0 && !exempt {
		return ""
	}
	return fmt.Sprintf("%s cost %q refund %s exempt %t", strings.Join(rules, "; "), cost, refundOn, exempt)
}

// annotationText writes the same from the annotations of a method.
func annotationText(t *testing.T, s protoreflect.ServiceDescriptor, m protoreflect.MethodDescriptor) string {
	t.Helper()
	option, _ := proto.GetExtension(m.Options(), ratelimitpb.E_Method).(*ratelimitpb.Method)
	own := ruleTexts(t, m.Options(), ratelimitpb.E_Rule, ratelimit.ScopeMethod)
	if len(own) == 0 {
		own = ruleTexts(t, s.Options(), ratelimitpb.E_DefaultRule, ratelimit.ScopeMethod)
	}
	own = append(own, ruleTexts(t, s.Options(), ratelimitpb.E_ServiceRule, ratelimit.ScopeService)...)
	if option.GetExempt() {
		own = nil
	}
	return methodText(own, option.GetCost(), fmt.Sprint(option.GetRefundOn()), option.GetExempt())
}

func ruleTexts(t *testing.T, options proto.Message, x protoreflect.ExtensionType, scope ratelimit.Scope) []string {
	t.Helper()
	rules, _ := proto.GetExtension(options, x).([]*ratelimitpb.Rule)
	var texts []string
	for _, r := range rules {
		rate, err := ratelimit.ParseRate(r.GetRate())
		if err != nil {
			t.Fatal(err)
		}
		algorithm, unavailable := "TOKEN_BUCKET", "LOCAL"
		if r.Algorithm != nil {
			algorithm = r.GetAlgorithm().String()
		}
		if r.OnUnavailable != nil {
			unavailable = r.GetOnUnavailable().String()
		}
		var keys []string
		for _, key := range r.GetKey() {
			if strings.HasPrefix(key, "metadata:") {
				key = strings.ToLower(key)
			}
			keys = append(keys, key)
		}
		texts = append(texts, fmt.Sprintf("rule %s %s burst %d %s %q bucket %q scope %d %s",
			r.GetName(), rate, r.GetBurst(), algorithm, keys, r.GetBucket(), scope, unavailable))
	}
	return texts
}
