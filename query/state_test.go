package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
)

func TestMutationStateHasTheFormThatSDKsExchange(t *testing.T) {
	var s query.MutationState
	require.Nil(t, s.Vectors())
	s.Add("travel", 17, 204823409283, 4711)
	s.Add("travel", 17, 1, 4710) // earlier
	s.Add("travel", 900, 99182, 3)
	s.Add("other", 0, 1<<63, 1<<63)
	const want = `{"travel":{"17":[4711,"204823409283"],"900":[3,"99182"]},"other":{"0":[9223372036854775808,"9223372036854775808"]}}`
	require.JSONEq(t, want, string(s.Vectors()))
	var back query.MutationState
	require.NoError(t, json.Unmarshal([]byte(want), &back))
	require.Equal(t, s, back)
	h, err := (&query.Request{Statement: "x", Consistency: query.AtPlus, ScanVectors: s.Vectors()}).HTTP()
	require.NoError(t, err)
	body, err := h.Body(1e9)
	require.NoError(t, err)
	require.Contains(t, string(body), `"scan_vectors":{"other":{"0":[9223372036854775808,`)
	for _, bad := range []string{`[]`, `{"b":{"x":[1,"1"]}}`, `{"b":{"70000":[1,"1"]}}`, `{"b":{"1":[1]}}`, `{"b":{"1":["1","1"]}}`, `{"b":{"1":[1,1]}}`, `{"b":{"1":[1,"-1"]}}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &query.MutationState{}), bad)
	}
}

func TestMutationStateForSearch(t *testing.T) {
	var s query.MutationState
	require.Nil(t, s.ForSearch("travel"))
	s.Add("travel", 17, 204823409283, 4711)
	s.Add("travel", 900, 99182, 3)
	s.Add("other", 1, 1, 1)
	vectors := s.ForSearch("travel")
	require.Equal(t, map[string]uint64{"17/204823409283": 4711, "900/99182": 3}, vectors)
	require.Nil(t, s.ForSearch("none"))
	var d seen
	r := &search.Request{Index: "i", Query: map[string]any{}, ConsistentWith: vectors}
	_, err := search.Run(t.Context(), &d, r, nil)
	require.ErrorIs(t, err, errSeen)
	body, err := d.request.Body(1e9)
	require.NoError(t, err)
	require.Contains(t, string(body), `"consistency":{"level":"at_plus","vectors":{"i":{"17/204823409283":4711,"900/99182":3}}}`)
}

// seen is a doer that sends nothing.
type seen struct{ request *httpsvc.Request }

var errSeen = errors.New("the request has been seen")

func (s *seen) Do(_ context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	s.request = r
	return nil, errSeen
}

// FuzzMutationState reads any text: what is read is written in a form that reads back as the same.
func FuzzMutationState(f *testing.F) {
	f.Add([]byte(`{"travel":{"17":[4711,"204823409283"],"900":[3,"99182"]},"other":{"0":[9223372036854775808,"9223372036854775808"]}}`))
	f.Add([]byte(`{"b":{"070":[1,"1"]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s, back query.MutationState
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		text, err := json.Marshal(&s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, string(s.Vectors()), string(back.Vectors()))
	})
}
