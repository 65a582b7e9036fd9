// protoc-gen-ratelimit is a plugin of protoc and buf. It checks the options of
// ratelimit/options.proto and compiles them to Go: for each annotated service
// Payments a function PaymentsLimits, which returns a ratelimit.Table.
package main

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/internal/gen"
)

const usage = `protoc-gen-ratelimit is a plugin: buf and protoc run it and speak to it through
stdin and stdout. It compiles the rate limits in .proto files to Go.

	protoc --go_out=. --ratelimit_out=. payments.proto

By hand:

	protoc-gen-ratelimit --print-options   write ratelimit/options.proto to stdout
	protoc-gen-ratelimit --version         write the plugin's version
	protoc-gen-ratelimit --help            write this

Parameters (--ratelimit_opt, or opt in buf.gen.yaml): paths, module, M...,
annotate_code, default_api_level and apilevelM... as protoc-gen-go takes them; give
both plugins the same. require=all fails for each method without a rule that is
not exempt.
`

func main() {
	if len(os.Args) > 1 {
		text, ok := command(os.Args[1:])
		if !ok {
			exit(os.Stderr, text, 2)
		}
		exit(os.Stdout, text, 0)
	}
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		exit(os.Stderr, usage, 2) // a person at a terminal, not a compiler
	}
	run, generate := plugin()
	run.Run(generate)
}

// plugin returns how protogen reads the parameters of a run, and what the run
// does.
func plugin() (protogen.Options, func(*protogen.Plugin) error) {
	var options gen.Options
	return protogen.Options{ParamFunc: options.Set}, func(p *protogen.Plugin) error {
		p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL |
			pluginpb.CodeGeneratorResponse_FEATURE_SUPPORTS_EDITIONS)
		p.SupportedEditionsMinimum = descriptorpb.Edition_EDITION_PROTO2
		p.SupportedEditionsMaximum = descriptorpb.Edition_EDITION_2024
		return gen.Generate(p, options)
	}
}

// command returns what the plugin answers to a person's arguments; ok is false
// if it does not know them.
func command(args []string) (text string, ok bool) {
	if len(args) == 1 {
		switch args[0] {
		case "--print-options", "-print-options":
			return ratelimitpb.Source(), true
		case "--version", "-version":
			return "protoc-gen-ratelimit " + gen.Version + "\n", true
		case "--help", "-help", "-h":
			return usage, true
		}
	}
	return fmt.Sprintf("protoc-gen-ratelimit: unknown arguments %q\n\n%s", args, usage), false
}

func exit(to *os.File, text string, code int) {
	if _, err := to.WriteString(text); err != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}
