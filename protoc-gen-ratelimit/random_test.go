package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"pgregory.net/rapid"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// TestRandomAnnotations generates for random files with valid annotations, and
// compiles the result with what protoc-gen-go makes of them.
func TestRandomAnnotations(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		source := drawFile(t)
		t.Log(source)
		request, err := link(t.Context(), &protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(map[string]string{
				"ratelimit/options.proto": ratelimitpb.Source(),
				"random.proto":            source,
			}),
		}, "random.proto")
		if err != nil {
			t.Fatal(err)
		}
		messages, err := generateMessages(request)
		if err != nil {
			t.Fatal(err)
		}
		files, err := respond(request)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 1 {
			t.Fatalf("%d files", len(files))
		}
		for name, content := range files {
			err := checker.check(append(messages, content))
			if err != nil && checker.check(messages) != nil {
				t.Skip("protoc-gen-go's own names meet")
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, content)
			}
		}
	})
}

// A drawing is a random file.
type drawing struct {
	*rapid.T
	head     string
	messages [][]drawnField
}

// A drawnField is a field as a path sees it.
type drawnField struct {
	name    string
	message int  // index of its type, or -1
	key     bool // it can end a key
	cost    bool // it can end a cost
}

// fieldNames are such as meet each other or methods of generated messages.
var fieldNames = []string{
	"a", "get_a", "has_a", "set_a", "which_choice", "choice_", "type", "func", "range", "string", "reset",
	"descriptor", "marshal", "build", "x_y", "m", "dst", "request", "parent", "member", "nil", "proto_message", "_b", "c_", "d1",
}

var scalars = []string{
	"int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
	"bool", "string", "bytes", "E", "double",
}

func drawFile(t *rapid.T) string {
	d := &drawing{T: t, messages: make([][]drawnField, rapid.IntRange(1, 3).Draw(t, "messages"))}
	syntax := rapid.SampledFrom([]string{"proto2", "proto3", "2023"}).Draw(t, "syntax")
	level := ""
	if syntax == "2023" {
		d.head = `edition = "2023";`
		level = "option features.(pb.go).api_level = " + rapid.SampledFrom([]string{"API_OPEN", "API_HYBRID", "API_OPAQUE"}).Draw(t, "level") + ";\n"
	} else {
		d.head = fmt.Sprintf("syntax = %q;", syntax)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\npackage random;\nimport \"ratelimit/options.proto\";\nimport \"google/protobuf/wrappers.proto\";\n"+
		"import \"google/protobuf/go_features.proto\";\noption go_package = \"example.com/random\";\n%senum E { ZERO = 0; ONE = 1; }\n", d.head, level)
	for i := range d.messages {
		b.WriteString(d.message(i, syntax))
	}
	b.WriteString(d.service())
	return b.String()
}

// message draws a message and notes its fields.
func (d *drawing) message(index int, syntax string) string {
	var plain, members strings.Builder
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(fieldNames), 1, 8, rapid.ID).Draw(d.T, "names")
	for number, name := range names {
		f := drawnField{name: name, message: -1}
		kind := rapid.SampledFrom([]string{"scalar", "scalar", "member", "message", "wrapper", "repeated", "map"}).Draw(d.T, "kind")
		scalar := rapid.SampledFrom(scalars).Draw(d.T, "type")
		label := ""
		switch syntax {
		case "proto2":
			label = "optional "
		case "proto3":
			label = rapid.SampledFrom([]string{"", "optional "}).Draw(d.T, "label")
		}
		number := number + 1
		switch kind {
		case "scalar", "member":
			f.key = scalar != "double"
			f.cost = f.key && scalar != "bool" && scalar != "E"
			if kind == "member" {
				fmt.Fprintf(&members, "    %s %s = %d;\n", scalar, name, number)
			} else {
				fmt.Fprintf(&plain, "  %s%s %s = %d;\n", label, scalar, name, number)
			}
		case "message":
			f.message = rapid.IntRange(0, len(d.messages)-1).Draw(d.T, "message")
			fmt.Fprintf(&plain, "  %sM%d %s = %d;\n", label, f.message, name, number)
		case "wrapper":
			wrapper := rapid.SampledFrom([]string{"Int32", "UInt64", "Bool", "String", "Bytes"}).Draw(d.T, "wrapper")
			f.key, f.cost = true, strings.Contains(wrapper, "Int")
			fmt.Fprintf(&plain, "  %sgoogle.protobuf.%sValue %s = %d;\n", label, wrapper, name, number)
		case "repeated":
			f.cost = true
			fmt.Fprintf(&plain, "  repeated %s %s = %d;\n", scalar, name, number)
		case "map":
			f.cost = true
			fmt.Fprintf(&plain, "  map<string, %s> %s = %d;\n", scalar, name, number)
		}
		d.messages[index] = append(d.messages[index], f)
	}
	if members.Len() > 0 {
		fmt.Fprintf(&plain, "  oneof choice {\n%s  }\n", &members)
	}
	return fmt.Sprintf("message M%d {\n%s}\n", index, &plain)
}

// paths returns the paths from a message, at most depth fields long, whose ends
// are wanted.
func (d *drawing) paths(message, depth int, wanted func(drawnField) bool) []string {
	var paths []string
	for _, f := range d.messages[message] {
		switch {
		case wanted(f):
			paths = append(paths, f.name)
		case f.message >= 0 && depth > 1:
			for _, rest := range d.paths(f.message, depth-1, wanted) {
				paths = append(paths, f.name+"."+rest)
			}
		}
	}
	return paths
}

// service draws a service; its own rules are of those that meet a method.
func (d *drawing) service() string {
	var methods strings.Builder
	var limited, plain bool
	for i := range rapid.IntRange(1, 4).Draw(d.T, "methods") {
		text, exempt, own := d.method(i)
		methods.WriteString(text)
		limited = limited || !exempt
		plain = plain || !exempt && own == 0
	}
	var b strings.Builder
	b.WriteString("service Type {\n")
	if limited {
		for i := range rapid.IntRange(0, 2).Draw(d.T, "service rules") {
			fmt.Fprintf(&b, "  option (ratelimit.service_rule) = { name: \"s%d\" %s };\n", i, d.rule(nil))
		}
	}
	if plain {
		for i := range rapid.IntRange(1, 2).Draw(d.T, "default rules") {
			fmt.Fprintf(&b, "  option (ratelimit.default_rule) = { name: \"d%d\" %s };\n", i, d.rule(nil))
		}
	}
	fmt.Fprintf(&b, "%s}\n", &methods)
	return b.String()
}

// method draws a method, and tells whether it is exempt and how many rules it
// states.
func (d *drawing) method(number int) (text string, exempt bool, own int) {
	var b strings.Builder
	message := rapid.IntRange(0, len(d.messages)-1).Draw(d.T, "request")
	keys := d.paths(message, 3, func(f drawnField) bool { return f.key })
	costs := d.paths(message, 3, func(f drawnField) bool { return f.cost })
	fmt.Fprintf(&b, "  rpc Call%d(M%d) returns (M0) {\n", number, message)
	if rapid.IntRange(0, 5).Draw(d.T, "exempt") == 0 {
		b.WriteString("    option (ratelimit.method).exempt = true;\n  }\n")
		return b.String(), true, 0
	}
	own = rapid.IntRange(0, 3).Draw(d.T, "rules")
	for j := range own {
		fmt.Fprintf(&b, "    option (ratelimit.rule) = { name: \"r%d\" %s };\n", j, d.rule(keys))
	}
	if len(costs) > 0 && rapid.Bool().Draw(d.T, "cost") {
		fmt.Fprintf(&b, "    option (ratelimit.method).cost = \"field:%s\";\n", rapid.SampledFrom(costs).Draw(d.T, "cost path"))
	}
	b.WriteString("  }\n")
	return b.String(), false, own
}

// rule draws all of a rule but its name. paths are those of its request's
// fields.
func (d *drawing) rule(paths []string) string {
	parts := []string{"ip", "principal", "metadata:X-Y", "attr:Z"}
	for _, path := range paths {
		parts = append(parts, "field:"+path)
	}
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(parts), 0, 4, rapid.ID).Draw(d.T, "key")
	slices.Sort(keys)
	algorithm := rapid.SampledFrom([]string{"TOKEN_BUCKET", "LEAKY_BUCKET", "FIXED_WINDOW", "SLIDING_WINDOW", "SLIDING_LOG"}).Draw(d.T, "algorithm")
	rate := fmt.Sprintf("%d/%d%s", rapid.IntRange(0, 10000).Draw(d.T, "count"), rapid.IntRange(1, 50).Draw(d.T, "n"),
		rapid.SampledFrom([]string{"ms", "s", "m", "h", "d", "w"}).Draw(d.T, "unit"))
	burst := ""
	if strings.HasSuffix(algorithm, "BUCKET") && !strings.HasPrefix(rate, "0/") && rapid.Bool().Draw(d.T, "has burst") {
		burst = fmt.Sprintf(" burst: %d", rapid.Int64Range(1, 1_000_000_000_000).Draw(d.T, "burst"))
	}
	return fmt.Sprintf("rate: %q algorithm: %s%s key: [%s]", rate, algorithm, burst, quoteAll(keys))
}

func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(quoted, ", ")
}
