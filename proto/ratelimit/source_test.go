package ratelimitpb_test

import (
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// TestSource compiles the embedded text and compares it with what the package was
// generated from.
func TestSource(t *testing.T) {
	want := protodesc.ToFileDescriptorProto(ratelimitpb.File_ratelimit_options_proto)
	compiled := compileSource(t)
	if !proto.Equal(compiled, want) {
		t.Errorf("options.proto and options.pb.go differ:\n%v\n%v", compiled, want)
	}
}

// compileSource compiles the text that [ratelimitpb.Source] returns.
func compileSource(t *testing.T) *descriptorpb.FileDescriptorProto {
	t.Helper()
	const path = "ratelimit/options.proto"
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{path: ratelimitpb.Source()}),
	})}
	files, err := compiler.Compile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return protoutil.ProtoFromFileDescriptor(files[0])
}
