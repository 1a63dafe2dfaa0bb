package fts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func terms(ts []token) (out []string) {
	for _, t := range ts {
		out = append(out, t.term)
	}
	return out
}

// Texts become the terms that analyzers make of them.
func TestAnalyzers(t *testing.T) {
	c := &custom{}
	require.NoError(t, json.Unmarshal([]byte(`{
		"analyzers":{
			"grams":{"type":"custom","tokenizer":"unicode","token_filters":["to_lower","three"]},
			"tags":{"type":"custom","tokenizer":"comma","char_filters":["html"],"token_filters":["short","mine"]}},
		"tokenizers":{"comma":{"type":"regexp","regexp":"[^,]+"}},
		"token_maps":{"words":{"type":"custom","tokens":["or"]}},
		"token_filters":{"three":{"type":"edge_ngram","min":2,"max":3,"back":false},
			"short":{"type":"length","min":2,"max":5},"mine":{"type":"stop_tokens","stop_token_map":"words"}}}`), c))
	for _, row := range []struct{ analyzer, text, want string }{
		{"standard", "The 512.707.2337 don't e.g. O'Hara foo_bar, a-b", "512.707.2337|e.g|o'hara|foo_bar|b"},
		{"standard", "San Francisco", "san|francisco"},
		{"standard", "東京 tower", "東|京|tower"},
		{"simple", "Ab1c 2d", "ab|c|d"},
		{"keyword", "As It is", "As It is"},
		{"en", "The brewers' doors opened happily; Anne's relational hop", "brewer|door|open|happili|ann|relat|hop"},
		{"grams", "Walls on", "wa|wal|on"},
		{"tags", "ab,<b class=x>,or,toolong,cd", "ab|cd"},
	} {
		a, err := c.analyzerNamed(row.analyzer)
		require.NoError(t, err)
		require.Equal(t, row.want, strings.Join(terms(a.run(row.text)), "|"), row.text)
	}
	_, err := c.analyzerNamed("klingon")
	require.ErrorAs(t, err, new(*Unsupported))
}

// Words of Porter's paper, with their stems.
func TestStems(t *testing.T) {
	for word, want := range map[string]string{
		"caresses": "caress", "ponies": "poni", "cats": "cat", "feed": "feed", "agreed": "agre", "plastered": "plaster",
		"motoring": "motor", "sing": "sing", "conflated": "conflat", "troubled": "troubl", "sized": "size",
		"falling": "fall",
		"hissing": "hiss", "failing": "fail", "filing": "file", "happy": "happi", "sky": "sky", "conditional": "condit",
		"vietnamization": "vietnam", "predication": "predic", "operator": "oper", "callousness": "callous",
		"formaliti": "formal", "triplicate": "triplic", "hopeful": "hope", "goodness": "good", "revival": "reviv",
		"adjustment": "adjust", "adoption": "adopt", "completion": "complet", "rate": "rate", "cease": "ceas",
		"controll": "control", "roll": "roll", "Über": "Über",
	} {
		require.Equal(t, want, stem(word), word)
	}
}
