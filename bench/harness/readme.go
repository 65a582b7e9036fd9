package harness

import (
	"fmt"
	"strings"
)

// Replace puts text between the markers of a section in a document. The markers
// are HTML comments on lines of their own: <!-- begin NAME --> and
// <!-- end NAME -->.
func Replace(document, section, text string) (string, error) {
	begin, end := "<!-- begin "+section+" -->\n", "<!-- end "+section+" -->\n"
	before, rest, found := strings.Cut(document, begin)
	_, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		return "", fmt.Errorf("the document has no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
