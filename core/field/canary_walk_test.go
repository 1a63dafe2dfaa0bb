package field_test

import (
	"reflect"
	"strings"
	"unsafe"
)

// walker reads everything that can be reached from a value, whatever its fields are called and wherever they point, and
// looks for the canaries. It goes through atomic pointers, too. What is behind a function is out of its reach, as it is
// out of a printer's. It stops at the connections of net/http, whose buffers hold the header of the last request: no
// format of fmt gets there.
type walker struct {
	seen  map[visit]bool
	types map[string]bool // that it has met
	found []string
}

type visit struct {
	at unsafe.Pointer
	of reflect.Type
}

func (w *walker) walk(name string, v any) {
	if v == nil {
		return
	}
	from := reflect.ValueOf(v)
	at := reflect.New(from.Type()).Elem() // a place whose parts have addresses
	at.Set(from)
	w.value(name, at)
}

func (w *walker) text(path, s string) {
	for _, c := range canaries() {
		if strings.Contains(s, c) {
			w.found = append(w.found, path)
			return
		}
	}
}

func (w *walker) value(path string, v reflect.Value) {
	if v.Type().PkgPath() == "net/http" && v.Type().Name() != "Header" {
		return
	}
	w.types[v.Type().String()] = true
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		w.text(path, v.String())
	case reflect.Interface:
		if !v.IsNil() {
			w.copied(path, v.Elem())
		}
	case reflect.Pointer:
		if p := v.UnsafePointer(); p != nil && !w.seen[visit{p, v.Type()}] {
			w.seen[visit{p, v.Type()}] = true
			w.value(path, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		w.list(path, v)
	case reflect.Map:
		if p := v.UnsafePointer(); p == nil || w.seen[visit{p, v.Type()}] {
			return
		} else {
			w.seen[visit{p, v.Type()}] = true
		}
		for each := v.MapRange(); each.Next(); {
			w.copied(path+" key", each.Key())
			w.copied(path+"[]", each.Value())
		}
	case reflect.Struct:
		if strings.HasPrefix(v.Type().String(), "atomic.Pointer[") && v.CanAddr() {
			loaded := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).MethodByName("Load").Call(nil)
			w.copied(path, loaded[0])
			return
		}
		for i := range v.NumField() {
			w.value(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

// list looks at bytes as text, and at the elements of everything else.
func (w *walker) list(path string, v reflect.Value) {
	if v.Kind() == reflect.Slice {
		if v.Len() == 0 || w.seen[visit{v.UnsafePointer(), v.Type()}] {
			return
		}
		w.seen[visit{v.UnsafePointer(), v.Type()}] = true
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		text := make([]byte, v.Len())
		for i := range text {
			text[i] = byte(v.Index(i).Uint())
		}
		w.text(path, string(text))
		return
	}
	for i := range v.Len() {
		w.value(path+"[]", v.Index(i))
	}
}

// copied is value for what has no address.
func (w *walker) copied(path string, v reflect.Value) {
	at := reflect.New(v.Type()).Elem()
	if v.CanInterface() {
		at.Set(v)
		w.value(path, at)
		return
	}
	w.value(path, v)
}
