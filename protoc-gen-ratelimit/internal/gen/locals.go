package gen

import (
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// A locals holds the names by which a file imports packages. A package may have
// any name, so the variables of generated functions give way to them.
type locals map[string]bool

// name returns the name of a variable that is called name wherever it can be.
func (l locals) name(name string) string {
	for l[name] {
		name += "_"
	}
	return name
}

// ident returns how the file writes an identifier, and imports its package.
func (w writer) ident(id protogen.GoIdent) string {
	name := w.QualifiedGoIdent(id)
	if alias, _, qualified := strings.Cut(name, "."); qualified {
		w.locals[alias] = true
	}
	return name
}
