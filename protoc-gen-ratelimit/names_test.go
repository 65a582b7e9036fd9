package main

import (
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/types/pluginpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// compileTexts compiles files of one Go package, of which only the given ones
// are to be generated. The head of each is left out.
func compileTexts(t *testing.T, texts map[string]string, generate ...string) *pluginpb.CodeGeneratorRequest {
	t.Helper()
	files := map[string]string{"ratelimit/options.proto": ratelimitpb.Source()}
	for name, text := range texts {
		files[name] = `syntax = "proto3"; package p; import "ratelimit/options.proto"; option go_package = "example.com/p"; ` + text
	}
	return compileFrom(t, &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(files)}, generate...)
}

const limitedService = ` { option (ratelimit.service_rule) = { name: "r" rate: "1/s" }; } `

// functions returns the names of the functions that a run generates.
func functions(t *testing.T, request *pluginpb.CodeGeneratorRequest) string {
	t.Helper()
	files, fault := generate(t, request)
	if fault != "" {
		return fault
	}
	var names []string
	for _, content := range files {
		for line := range strings.Lines(content) {
			if name, ok := strings.CutPrefix(line, "func "); ok {
				names = append(names, name[:strings.IndexByte(name, '(')])
			}
		}
	}
	return strings.Join(names, " ")
}

func TestFunctionNames(t *testing.T) {
	service := func(name string) string { return "service " + name + limitedService }
	tests := []struct {
		name     string
		texts    map[string]string
		generate []string
		want     string
	}{
		{"plain", map[string]string{"a": service("Pay")}, []string{"a"}, "PayLimits"},
		{"services of one Go name", map[string]string{"a": service("to_pay") + service("ToPay")}, []string{"a"}, "ToPayLimits ToPayLimits_"},
		{
			"a service of an imported file",
			map[string]string{"a": service("to_pay"), "b": `import "a"; ` + service("ToPay")},
			[]string{"b"},
			"ToPayLimits_",
		},
		{
			"a message of a file imported by an imported one",
			map[string]string{"a": "message PayLimits {}", "b": `import "a";`, "c": `import "b"; ` + service("Pay")},
			[]string{"c"},
			"PayLimits_",
		},
		{
			"a message of a file that imports the service's",
			map[string]string{"a": service("Pay"), "b": `import "a"; message PayLimits {}`},
			[]string{"b", "a"},
			`a:1: Pay: service is "Pay", want another name for it, or for message p.PayLimits (b): both make PayLimits in Go package "example.com/p"`,
		},
		{
			"what this run does not see",
			map[string]string{"a": service("Pay"), "b": `import "a"; message PayLimits {}`},
			[]string{"a"},
			"PayLimits",
		},
		{"an extension", map[string]string{"a": `import "google/protobuf/descriptor.proto"; extend google.protobuf.FileOptions { string limits = 50000; } ` +
			service("E_")}, []string{"a"}, "E_Limits_"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := functions(t, compileTexts(t, test.texts, test.generate...)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
