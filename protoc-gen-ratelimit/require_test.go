package main

import "testing"

// TestRequireAll asks for a decision on each method.
func TestRequireAll(t *testing.T) {
	const paste = `:
    option (ratelimit.rule) = { name: "calls" rate: "10/s" key: "principal" };
    option (ratelimit.method) = { exempt: true };`
	tests := []struct {
		name, file, want string
	}{
		{"a rule or exempt each", "hybrid/hybrid.proto", ""},
		{"a rule of the service", "comments/comments.proto", ""},
		{"no service", "none/none.proto", ""},
		{
			"one without", "simple/simple.proto",
			`simple/simple.proto:18: Payments.Refund: rule is missing, want one of these lines in the method's braces (require=all)` + paste,
		},
		{
			"no import", "nooptions/nooptions.proto",
			`nooptions/nooptions.proto:8: Plain.Call: rule is missing, want one of these lines in the method's braces, and import "ratelimit/options.proto" (require=all)` + paste,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, got := generate(t, compile(t, test.file), "require=all"); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}
