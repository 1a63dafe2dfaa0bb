package viewjs

import (
	"fmt"
	"strings"
)

// maxSource is how many bytes the code of a function may have: as many as a server takes for the eventing service.
const maxSource = 128 << 10

// maxCostly is how many colons, and how many arrows, code may have. Both nest without brackets. The parser keeps an
// error for each pair of labels that are alike and one within the other, which took 3.7 GB for 16 KiB of "a:". Its time
// for arrow functions grows with the square of their number, to 10 s for 64 KiB of "a=>".
const maxCostly = 2048

// readable refuses code that the parser is not given. The parser calls itself for what is nested, and a stack that
// grows over 1 GB ends the process. Brackets take most of it, so they have a limit of their own; nothing else that can
// be nested is too deep within maxSource.
func readable(code string, depth int) error {
	if len(code) > maxSource {
		return fmt.Errorf("%d bytes of code, and the limit is %d", len(code), maxSource)
	}
	if deepest(code) > depth {
		return fmt.Errorf("more than %d brackets within brackets", depth)
	}
	for _, costly := range []string{":", "=>"} {
		if strings.Count(code, costly) > maxCostly {
			return fmt.Errorf("more than %d times %q", maxCostly, costly)
		}
	}
	return nil
}

// deepest is how deep brackets are nested; those in texts and comments count too.
func deepest(code string) (most int) {
	depth := 0
	for _, c := range []byte(code) {
		switch c {
		case '(', '[', '{':
			depth++
			most = max(most, depth)
		case ')', ']', '}':
			depth--
		}
	}
	return most
}
