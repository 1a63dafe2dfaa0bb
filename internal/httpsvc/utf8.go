package httpsvc

import (
	"fmt"
	"reflect"
	"unicode/utf8"
)

// notUTF8 names a member of a request that has a text which is not UTF-8; nil when all of them are.
func notUTF8(v any) error {
	members, ok := v.(map[string]any)
	if !ok {
		members = map[string]any{"the value": v}
	}
	for name, value := range members {
		if !readable(reflect.ValueOf(value)) {
			return fmt.Errorf("%s is not UTF-8, which JSON cannot carry", name)
		}
	}
	return nil
}

// readable reports whether all texts in a value are UTF-8. The value has been encoded, so it has no cycles.
func readable(v reflect.Value) bool {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Interface, reflect.Pointer:
		return v.IsNil() || readable(v.Elem())
	case reflect.Map:
		for of := v.MapRange(); of.Next(); {
			if !readable(of.Key()) || !readable(of.Value()) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
			if !readable(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !readable(v.Field(i)) {
				return false
			}
		}
	}
	return true
}
