package core

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// Nothing of an answer is forgotten in the log but its body.
func TestTheLogHasAllOfAnAnswer(t *testing.T) {
	answer := &kv.Error{Retry: retry.Info{Counted: 3}, Err: errors.New("kind"), Cause: errors.New("cause")}
	v := reflect.ValueOf(answer).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case f.CanUint():
			f.SetUint(uint64(i) + 1)
		case f.CanInt():
			f.SetInt(int64(i) + 1)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		}
		require.True(t, !v.Field(i).CanSet() || !v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
	end := &retry.Error{Operation: "get", Cause: answer}
	got := settled(end)
	require.Equal(t, error(end), got)
	var kept *kv.Error
	require.ErrorAs(t, got, &kept)
	require.NotSame(t, answer, kept)
	other := errors.New("other")
	require.Equal(t, other, settled(other))
}
