package fts

import "strings"

// stopWords are the words that English analyzers leave out.
var stopWords = wordSet(`i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she
	her hers herself it its itself they them their theirs themselves what which who whom this that these those am is are
	was were be been being have has had having do does did doing would should could ought i'm you're he's she's it's
	we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll he'll she'll we'll they'll
	isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't shan't shouldn't can't cannot
	couldn't mustn't let's that's who's what's here's there's when's where's why's how's a an the and but if or
	because as until while of at by for with about against between into through during before after above below to from up down in out on
	off over under again further then once here there when where why how all any both each few more most other some such
	no nor not only own same so than too very`)

func wordSet(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(text) {
		out[w] = true
	}
	return out
}

// The stemmer follows M. F. Porter, "An algorithm for suffix stripping" (1980). A word is its letters in lower case;
// what has other letters stays as it is.

// vowelAt reports whether the letter at i is a vowel; y is one behind a consonant.
func vowelAt(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return true
	case 'y':
		return i > 0 && !vowelAt(w, i-1)
	}
	return false
}

// measure is how often a vowel is followed by a consonant.
func measure(w string) int {
	n := 0
	for i := 1; i < len(w); i++ {
		if vowelAt(w, i-1) && !vowelAt(w, i) {
			n++
		}
	}
	return n
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if vowelAt(w, i) {
			return true
		}
	}
	return false
}

func doubled(w string) bool {
	n := len(w)
	return n > 1 && w[n-1] == w[n-2] && !vowelAt(w, n-1)
}

// shortEnd reports whether a word ends in consonant, vowel, consonant, the last of which is not w, x or y.
func shortEnd(w string) bool {
	n := len(w)
	return n > 2 && !vowelAt(w, n-3) && vowelAt(w, n-2) && !vowelAt(w, n-1) &&
		!strings.ContainsRune("wxy", rune(w[n-1]))
}

// suffix is an ending and what takes its place if the stem before it has at least some measure.
type suffix struct{ from, to string }

var stepTwo = []suffix{
	{"ational", "ate"},
	{"tional", "tion"},
	{"enci", "ence"},
	{"anci", "ance"},
	{"izer", "ize"},
	{"abli", "able"},
	{"alli", "al"},
	{"entli", "ent"},
	{"eli", "e"},
	{"ousli", "ous"},
	{"ization", "ize"},
	{"ation", "ate"},
	{"ator", "ate"},
	{"alism", "al"},
	{"iveness", "ive"},
	{"fulness", "ful"},
	{"ousness", "ous"},
	{"aliti", "al"},
	{"iviti", "ive"},
	{"biliti", "ble"},
}

var stepThree = []suffix{
	{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
}

var stepFour = []suffix{
	{"al", ""},
	{"ance", ""},
	{"ence", ""},
	{"er", ""},
	{"ic", ""},
	{"able", ""},
	{"ible", ""},
	{"ant", ""},
	{"ement", ""},
	{"ment", ""},
	{"ent", ""},
	{"ou", ""},
	{"ism", ""},
	{"ate", ""},
	{"iti", ""},
	{"ous", ""},
	{"ive", ""},
	{"ize", ""},
}

// replaced changes the first ending of the list that a word has.
func replaced(w string, list []suffix, least int) string {
	for _, s := range list {
		if stem, ok := strings.CutSuffix(w, s.from); ok {
			if measure(stem) >= least {
				return stem + s.to
			}
			return w
		}
	}
	return w
}

// stem is a word without its endings.
func stem(w string) string {
	if len(w) < 3 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
		return w
	}
	w = plural(w)
	w = past(w)
	if s, ok := strings.CutSuffix(w, "y"); ok && hasVowel(s) {
		w = s + "i"
	}
	w = fourth(replaced(replaced(w, stepTwo, 1), stepThree, 1))
	if s, ok := strings.CutSuffix(w, "e"); ok && (measure(s) > 1 || measure(s) == 1 && !shortEnd(s)) {
		w = s
	}
	if measure(w) > 1 && doubled(w) && strings.HasSuffix(w, "l") {
		w = w[:len(w)-1]
	}
	return w
}

func fourth(w string) string {
	s, ok := strings.CutSuffix(w, "ion")
	if !ok || !strings.HasSuffix(s, "s") && !strings.HasSuffix(s, "t") {
		return replaced(w, stepFour, 2)
	}
	if measure(s) > 1 {
		return s
	}
	return w
}

func plural(w string) string {
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss"):
		return w[:len(w)-1]
	}
	return w
}

func past(w string) string {
	if s, ok := strings.CutSuffix(w, "eed"); ok {
		if measure(s) > 0 {
			return s + "ee"
		}
		return w
	}
	s, ok := strings.CutSuffix(w, "ed")
	if !ok {
		s, ok = strings.CutSuffix(w, "ing")
	}
	if !ok || !hasVowel(s) {
		return w
	}
	switch {
	case strings.HasSuffix(s, "at"), strings.HasSuffix(s, "bl"), strings.HasSuffix(s, "iz"):
		return s + "e"
	case doubled(s) && !strings.ContainsRune("lsz", rune(s[len(s)-1])):
		return s[:len(s)-1]
	case measure(s) == 1 && shortEnd(s):
		return s + "e"
	}
	return s
}
