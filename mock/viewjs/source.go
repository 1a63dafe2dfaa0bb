package viewjs

import "fmt"

// maxSource is how many bytes the code of a function may have: as many as a server takes for the eventing service.
const maxSource = 128 << 10

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
