package gen

import "fmt"

const knownParams = "want paths, module, M..., annotate_code, default_api_level, apilevelM... or require"

// Set takes a parameter that protogen does not know.
func (o *Options) Set(name, value string) error {
	switch {
	case name != "require":
		return fmt.Errorf("unknown parameter %q: %s", name, knownParams)
	case value != "all":
		return fmt.Errorf("require is %q: want all", value)
	}
	o.RequireAll = true
	return nil
}
