package management

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// page is a path with settings: GET answers all of them, POST writes those of a form.
type page struct {
	path        string
	read, write string // permissions; without a write one nothing can be written
	settings    []setting
	required    []string
	// answers says that a POST is answered with all settings, and not with nothing.
	answers bool
	// loose takes settings that are in no row, as texts, numbers or truth values.
	loose bool
	json  bool // a POST has a JSON object
	// formOrJSON says that a POST may have a JSON object instead of a form (menelaus_web_settings2.erl). A name with
	// dots is a path through objects, which a form writes with slashes.
	formOrJSON bool
}

// setting is one of a page. Without a check it can be read only.
type setting struct {
	name  string
	first any
	check check
}

func (p *page) defaults() object {
	out := object{}
	for _, s := range p.settings {
		if s.first != nil {
			out[s.name] = s.first
		}
	}
	return out
}

// pageRoutes are the rows of the table for all pages.
func pageRoutes() []route {
	var out []route
	for i := range pages {
		p := &pages[i]
		out = append(out, route{http.MethodGet, p.path, p.read, func(x *call) { x.send(x.readPage(p.path)) }})
		if p.write != "" {
			out = append(out, route{http.MethodPost, p.path, p.write, func(x *call) { x.writePage(p) }})
		}
	}
	return out
}

// readPage are the settings of a path that the version has.
func (x *call) readPage(path string) object {
	v, out := x.version(), x.s.page(path)
	maps.DeleteFunc(out, func(name string, _ any) bool { return !v.has(name) })
	for name, value := range maps.Clone(out) {
		if strings.Contains(name, ".") {
			delete(out, name)
			plant(out, strings.Split(name, "."), value)
		}
	}
	return out
}

// plant puts a value where a path of names leads.
func plant(o object, path []string, v any) {
	if len(path) == 1 {
		o[path[0]] = v
		return
	}
	inside, ok := o[path[0]].(object)
	if !ok {
		inside = object{}
		o[path[0]] = inside
	}
	plant(inside, path[1:], v)
}

// writePage changes settings: all of the form, or none when one is wrong.
func (x *call) writePage(p *page) {
	values, errs := object{}, fields{}
	switch {
	case p.json:
		if !x.body(&values) {
			return
		}
	case p.formOrJSON && strings.HasPrefix(x.r.Header.Get("Content-Type"), jsonKind):
		given := object{}
		d := json.NewDecoder(bytes.NewReader(x.payload))
		d.UseNumber()
		if len(x.payload) > 0 && d.Decode(&given) != nil {
			x.text(http.StatusBadRequest, "Invalid JSON")
			return
		}
		p.parseJSON(x.version(), "", given, values, errs)
	default:
		values, errs = p.parse(x)
	}
	switch {
	case len(errs) > 0:
		x.wrong(errs)
		return
	case x.justValidate():
		x.send(object{"errors": object{}})
		return
	}
	x.s.mu.Lock()
	next := maps.Clone(x.s.pages[p.path])
	maps.Copy(next, values)
	x.s.pages[p.path] = next
	x.s.mu.Unlock()
	x.s.host.SettingsChanged(p.path)
	if p.answers {
		x.send(x.readPage(p.path))
		return
	}
	x.done()
}

// parse checks the fields of a form.
func (p *page) parse(x *call) (object, fields) {
	values, errs, version := object{}, fields{}, x.version()
	for _, name := range p.required {
		if _, ok := x.given(name); !ok {
			errs[name] = mustBeSupplied
		}
	}
	for name := range x.form {
		text := x.form.Get(name)
		if p.formOrJSON {
			name = strings.ReplaceAll(name, "/", ".")
		}
		check := p.check(name)
		if check == nil || !version.has(name) {
			errs[name] = unsupportedKey
			continue
		}
		v, wrong := check(text)
		if wrong != "" {
			errs[name] = wrong
			continue
		}
		put(values, name, v)
	}
	return values, errs
}

// parseJSON checks the members of a JSON object, which stands where the path before leads to.
func (p *page) parseJSON(version Version, before string, given, values object, errs fields) {
	for name, v := range given {
		name = before + name
		inside, nested := v.(object)
		check := p.check(name)
		switch {
		case nested && p.hasBelow(name):
			p.parseJSON(version, name+".", inside, values, errs)
		case check == nil || !version.has(name):
			errs[name] = unsupportedKey
		default:
			value, wrong := checkJSON(check, v)
			if values[name] = value; wrong != "" {
				errs[name] = wrong
			}
		}
	}
}

// hasBelow reports whether settings have a path that begins so.
func (p *page) hasBelow(name string) bool {
	return slices.ContainsFunc(p.settings, func(s setting) bool { return strings.HasPrefix(s.name, name+".") })
}

// checkJSON checks a value of a JSON object as the field of a form that says the same. Objects are kept as they are.
func checkJSON(check check, v any) (any, string) {
	switch v := v.(type) {
	case bool:
		return check(strconv.FormatBool(v))
	case string:
		return check(v)
	case json.Number:
		return check(v.String())
	case []any:
		var texts []string
		for _, element := range v {
			texts = append(texts, fmt.Sprint(element))
		}
		return check(strings.Join(texts, ","))
	}
	return v, ""
}

// check is how a setting is read from a form, nil for one that cannot be written.
func (p *page) check(name string) check {
	for _, s := range p.settings {
		if s.name == name {
			return s.check
		}
	}
	if p.loose {
		return looseValue
	}
	return nil
}

// looseValue takes anything: a truth value, a number, or else a text.
func looseValue(text string) (any, string) {
	if v, wrong := isBool(text); wrong == "" {
		return v, ""
	}
	if v, wrong := anyInt(text); wrong == "" {
		return v, ""
	}
	return text, ""
}

// put sets a value. A name of the form "a[b]" is the member b of the object a.
func put(o object, name string, v any) {
	outer, inner, nested := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	if !nested {
		o[name] = v
		return
	}
	inside, ok := o[outer].(object)
	if !ok {
		inside = object{}
	}
	inside[inner] = v
	o[outer] = inside
}
