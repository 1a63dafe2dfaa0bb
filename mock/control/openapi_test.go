package control

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write openapi.json")

// object is an object of the description. Its members are in the order of their names, as encoding/json writes them.
type object map[string]any

// describer makes the description of the table.
type describer struct {
	t       *testing.T
	schemas object
	types   map[string]reflect.Type
}

// TestTheDescriptionIsThatOfTheTable fails when openapi.json is stale: `go test ./mock/control -run TheDescription
// -update` writes it.
func TestTheDescriptionIsThatOfTheTable(t *testing.T) {
	d := &describer{t: t, schemas: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	seen := map[string]bool{}
	for _, rt := range routes() {
		require.False(t, seen[rt.method+rt.path], "%s %s is in the table twice", rt.method, rt.path)
		seen[rt.method+rt.path] = true
		require.Regexp(t, `^[A-Z].*\.$`, rt.does)
		path := strings.TrimSuffix(rt.path, "{$}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(rt.method)] = d.operation(rt)
	}
	want, err := json.MarshalIndent(object{
		"openapi": "3.0.3",
		"info": object{
			"title": "Control of a couchcore mock cluster", "version": "1",
			"description": "Errors have a status of 400 or more and the body {\"error\": {...}}. " +
				"docs/testing.md is the guide.",
			"license": object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		"servers": []object{{"url": "/"}},
		"paths":   paths, "components": object{"schemas": d.schemas},
	}, "", " ")
	require.NoError(t, err)
	want = append(bytes.ReplaceAll(want, []byte(`\u0026`), []byte("&")), '\n')
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", want, 0o600))
		return
	}
	require.Equal(t, string(want), string(openAPI),
		"openapi.json is stale: go test ./mock/control -run TheDescription -update")
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (d *describer) operation(rt route) object {
	op := object{"summary": rt.does, "operationId": operationID(rt), "responses": object{
		"200": object{"description": "Done.", "content": d.content(rt.out)},
		"default": object{
			"description": "What is wrong.", "content": d.content(reflect.TypeFor[errorBody]()),
		},
	}}
	var parameters []object
	for _, m := range pathParameter.FindAllStringSubmatch(rt.path, -1) {
		parameters = append(parameters, object{
			"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"},
		})
	}
	if rt.method != http.MethodGet && rt.method != http.MethodDelete {
		if rt.in != reflect.TypeFor[nothing]() {
			op["requestBody"] = object{"required": true, "content": d.content(rt.in)}
		}
	} else {
		for i := range rt.in.NumField() {
			f := rt.in.Field(i)
			parameters = append(parameters, object{
				"name": memberName(f), "in": "query", "description": f.Tag.Get("doc"), "schema": d.schema(f.Type),
				"explode": false,
			})
		}
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	return op
}

// operationID is a name that generators of clients use.
func operationID(rt route) string {
	words := strings.FieldsFunc(strings.ToLower(rt.method)+rt.path, func(r rune) bool {
		return strings.ContainsRune("/{}$-.", r)
	})
	words = slices.DeleteFunc(words, func(w string) bool { return w == "v1" })
	return strings.Join(words, "_")
}

func (d *describer) content(t reflect.Type) object {
	return object{"application/json": object{"schema": d.schema(t)}}
}

// schema describes a type. Structures are described once, by their names.
func (d *describer) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface:
		return object{}
	case t == reflect.TypeFor[document]():
		return object{"type": "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		return d.named(t)
	default:
		return object{"type": "integer", "format": "int64"}
	}
}

func (d *describer) named(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	ref := object{"$ref": "#/components/schemas/" + name}
	if old := d.types[name]; old != nil {
		require.Equal(d.t, old, t, "two types have the name %s", name)
		return ref
	}
	d.types[name] = t
	properties := object{}
	for i := range t.NumField() {
		f := t.Field(i)
		if memberName(f) == "-" {
			continue
		}
		require.NotEmpty(d.t, memberName(f), "%s.%s has no name in JSON", name, f.Name)
		p := d.schema(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			if p["$ref"] != nil {
				p = object{"allOf": []object{p}}
			}
			p["description"] = doc
		}
		properties[memberName(f)] = p
	}
	d.schemas[name] = object{"type": "object", "properties": properties}
	return ref
}
