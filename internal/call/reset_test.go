package call

import (
	"context"
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// stays are the fields that a call keeps when it is used again, and why.
var stays = map[string]string{
	"wake":        "the channel belongs to the memory, and is empty between two uses",
	"place":       "the count of operations that this memory uses is the memory's, for what it costs to choose one",
	"slow":        "memory for the slow path, which is zero",
	"State.ph":    "attempts go on counting",
	"use.Req.own": "memory for what few requests have, which is zero",
}

// TestNothingOfACallSurvivesIntoTheNextUseOfItsMemory fills every field with garbage and looks for what a Reset has
// left.
func TestNothingOfACallSurvivesIntoTheNextUseOfItsMemory(t *testing.T) {
	for range 3 {
		c := NewCall()
		filled := fill(reflect.ValueOf(c).Elem())
		filled += fill(reflect.ValueOf(c.Req.own).Elem()) + fill(reflect.ValueOf(c.slow.Load()).Elem())
		c.Req.cold = &c.Req.own.cold
		require.Greater(t, filled, 80, "the fields of a call, of its request and of its answer")
		c.Reset()
		require.Zero(t, c.Req.own.cold)
		for _, left := range leftIn(reflect.ValueOf(c.slow.Load()).Elem(), "") {
			require.Equal(t, "watcher", left, "survives Reset") // whose memory is used again
		}
		for _, left := range leftIn(reflect.ValueOf(c).Elem(), "") {
			require.Contains(t, stays, left, "the field survives Reset")
		}
	}
}

// fill sets everything in v that is not a place for another goroutine's pointers to something that is not zero, and
// says how many.
func fill(v reflect.Value) (n int) {
	v = writable(v)
	switch v.Kind() {
	case reflect.Struct:
		if v.Type().PkgPath() == "sync" { // sync.Once: as if it had been used
			v.Addr().MethodByName("Do").Call([]reflect.Value{reflect.ValueOf(func() {})})
			return 1
		}
		if v.Type().PkgPath() == "sync/atomic" {
			return fillAtomic(v)
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" && v.Type().Field(i).Name != "ph" {
				n += fill(v.Field(i))
			}
		}
		return n
	case reflect.Array:
		for i := range v.Len() {
			n += fill(v.Index(i))
		}
		return n
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Chan:
		v.Set(reflect.MakeChan(v.Type(), 1))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Interface:
		v.Set(reflect.Zero(garbageFor(v.Type())))
	case reflect.String:
		v.SetString("garbage")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	default:
		panic("no garbage for " + v.Type().String())
	}
	return 1
}

// fillAtomic stores something in a value of package sync/atomic.
func fillAtomic(v reflect.Value) int {
	store := v.Addr().MethodByName("Store")
	arg := reflect.New(store.Type().In(0)).Elem()
	fill(arg)
	store.Call([]reflect.Value{arg})
	return 1
}

// garbageFor is a type that has the methods of an interface.
func garbageFor(i reflect.Type) reflect.Type {
	for _, t := range []reflect.Type{
		reflect.TypeFor[*Error](), reflect.TypeFor[anyStrategy](), reflect.TypeFor[anyContext](),
		reflect.TypeFor[anyOwner](), reflect.TypeFor[anyWatcher](),
	} {
		if t.Implements(i) {
			return t
		}
	}
	panic("no type for " + i.String())
}

// writable is v without the protection of unexported fields.
func writable(v reflect.Value) reflect.Value {
	if !v.CanAddr() {
		return v
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// leftIn are the fields in v that are not zero.
func leftIn(v reflect.Value, path string) (left []string) {
	v = writable(v)
	if v.Kind() == reflect.Struct && v.Type().PkgPath() != "sync/atomic" && v.Type().PkgPath() != "sync" {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "_" {
				if path != "" {
					name = path + "." + name
				}
				left = append(left, leftIn(v.Field(i), name)...)
			}
		}
		return left
	}
	if !v.IsZero() {
		left = append(left, path)
	}
	return left
}

type anyStrategy struct{}

func (anyStrategy) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}

type anyContext struct{ context.Context }

type anyOwner struct{}

func (anyOwner) Redispatch(*Call)         {}
func (anyOwner) Complete(func())          {}
func (anyOwner) Cancel(*Call, error) bool { return false }

type anyWatcher struct{ Watcher }
