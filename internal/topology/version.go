package topology

import "bytes"

// scanWindow is how far ScanVersion looks for rev and revEpoch.
const scanWindow = 256

// Newer reports whether s replaces the other map, which may be nil: by epoch, then by revision. A map without a
// revision replaces any of its epoch, and a bucket's map the whole cluster's of the same revision.
func (s *Snapshot) Newer(than *Snapshot) bool {
	switch {
	case than == nil:
		return true
	case s.Epoch != than.Epoch:
		return s.Epoch > than.Epoch
	case s.Rev == 0, s.Locator != LocatorNone && than.Locator == LocatorNone && s.Rev == than.Rev:
		return true
	}
	return s.Rev > than.Rev
}

// ScanVersion finds rev and revEpoch among the members of a map's top-level object, within its first 256 bytes and
// without an allocation. ok is false when that is not certain: then the map has to be parsed. A map that has no
// revEpoch at all has epoch 0.
func ScanVersion(raw []byte) (epoch int64, rev uint64, ok bool) {
	b := raw[:min(len(raw), scanWindow)]
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return 0, 0, false
	}
	var hasRev, hasEpoch bool
	for i = skipSpace(b, i+1); i < len(b) && b[i] == '"'; i = skipSpace(b, i+1) {
		end := stringEnd(b, i)
		key := b[i+1 : max(end, i+1)]
		if i = skipSpace(b, end+1); i >= len(b) || b[i] != ':' {
			break
		}
		i = skipSpace(b, i+1)
		switch string(key) {
		case "rev":
			n, ok := number(b, i)
			if !ok {
				return 0, 0, false
			}
			rev, hasRev = uint64(n), true
		case "revEpoch":
			epoch, hasEpoch = number(b, i)
			if !hasEpoch {
				return 0, 0, false
			}
		}
		if hasRev && hasEpoch {
			return epoch, rev, true
		}
		if i = skipSpace(b, skipValue(b, i)); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if !hasRev || bytes.Contains(raw, []byte(`"revEpoch"`)) {
		return 0, 0, false
	}
	return 0, rev, true
}

// skipValue gives the position after the value that begins at i.
func skipValue(b []byte, i int) int {
	deep := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			deep++
		case '}', ']':
			if deep == 0 {
				return i // the object around the value
			}
			deep--
		case ',':
			if deep == 0 {
				return i
			}
		}
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// number reads digits that something else follows, so that a number cut by the window does not count.
func number(b []byte, i int) (n int64, ok bool) {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i-start < 18 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	next := skipSpace(b, i)
	return n, i > start && next < len(b) && (b[next] == ',' || b[next] == '}')
}
