package fts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Index is the definition of a search index, read.
type Index struct {
	Name    string
	Bucket  string   // whose documents it has
	Targets []string // an alias: the names of the indexes it stands for
	Alias   bool

	uuid    string
	mapping indexMapping
	config  docConfig
	docID   *regexp.Regexp // of a type by a part of the document's key
}

type indexMapping struct {
	Types         map[string]*docMapping `json:"types"`
	Default       *docMapping            `json:"default_mapping"`
	TypeField     string                 `json:"type_field"`
	DefaultType   string                 `json:"default_type"`
	Analyzer      string                 `json:"default_analyzer"`
	DateParser    string                 `json:"default_datetime_parser"`
	Field         string                 `json:"default_field"`
	StoreDynamic  bool                   `json:"store_dynamic"`
	IndexDynamic  bool                   `json:"index_dynamic"`
	Analysis      custom                 `json:"analysis"`
	analyzers     map[string]*analyzer
	analyzerFails map[string]error
}

type docConfig struct {
	Mode      string `json:"mode"`
	TypeField string `json:"type_field"`
	Delimiter string `json:"docid_prefix_delim"`
	Regexp    string `json:"docid_regexp"`
}

// docMapping says how an object, or a member of it, is indexed.
type docMapping struct {
	Enabled    bool                   `json:"enabled"`
	Dynamic    bool                   `json:"dynamic"`
	Analyzer   string                 `json:"default_analyzer"`
	Properties map[string]*docMapping `json:"properties"`
	Fields     []fieldMapping         `json:"fields"`
}

// UnmarshalJSON reads a mapping, which is enabled and dynamic unless it says something else.
func (m *docMapping) UnmarshalJSON(b []byte) error {
	type raw docMapping
	p := raw{Enabled: true, Dynamic: true}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*m = docMapping(p)
	return nil
}

// fieldMapping says how a value is indexed.
type fieldMapping struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Analyzer   string `json:"analyzer"`
	Store      bool   `json:"store"`
	Index      bool   `json:"index"`
	InAll      bool   `json:"include_in_all"`
	DateFormat string `json:"date_format"`
	Dims       int    `json:"dims"`
	Similarity string `json:"similarity"`
}

// UnmarshalJSON reads a mapping.
func (m *fieldMapping) UnmarshalJSON(b []byte) error {
	type raw fieldMapping
	p := raw{Index: true}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*m = fieldMapping(p)
	return nil
}

// ParseIndex reads a definition as clients send it.
func ParseIndex(definition []byte) (*Index, error) {
	var def struct {
		Name   string          `json:"name"`
		UUID   string          `json:"uuid"`
		Type   string          `json:"type"`
		Source string          `json:"sourceName"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(definition, &def); err != nil {
		return nil, err
	}
	ix := &Index{Name: def.Name, Bucket: def.Source, uuid: def.UUID, Alias: def.Type == "fulltext-alias"}
	ix.mapping = indexMapping{
		Default: &docMapping{Enabled: true, Dynamic: true}, TypeField: "type", DefaultType: "_default",
		Analyzer: "standard", DateParser: "dateTimeOptional", Field: allFields, IndexDynamic: true,
	}
	ix.config = docConfig{Mode: "type_field", TypeField: "type"}
	params := struct {
		Mapping *indexMapping   `json:"mapping"`
		Config  *docConfig      `json:"doc_config"`
		Targets json.RawMessage `json:"targets"`
	}{Mapping: &ix.mapping, Config: &ix.config}
	if len(def.Params) > 0 {
		if err := json.Unmarshal(def.Params, &params); err != nil {
			return nil, err
		}
	}
	if ix.mapping.Default == nil {
		ix.mapping.Default = &docMapping{Enabled: true, Dynamic: true}
	}
	ix.mapping.analyzers, ix.mapping.analyzerFails = map[string]*analyzer{}, map[string]error{}
	if ix.Alias {
		return ix, ix.targets(params.Targets)
	}
	if strings.HasSuffix(ix.config.Mode, "docid_regexp") {
		var err error
		if ix.docID, err = regexp.Compile(ix.config.Regexp); err != nil {
			return nil, fmt.Errorf("docid_regexp: %w", err)
		}
	}
	return ix, nil
}

func (ix *Index) targets(raw json.RawMessage) error {
	targets := map[string]json.RawMessage{}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &targets); err != nil {
		return err
	}
	for name := range targets {
		ix.Targets = append(ix.Targets, name)
	}
	return nil
}

// byCollection reports whether types are named after collections.
func (ix *Index) byCollection() bool { return strings.HasPrefix(ix.config.Mode, "scope.collection.") }

// mappingOf is the mapping of a document; nil for one that is not indexed.
func (ix *Index) mappingOf(d *Document, object map[string]any) *docMapping {
	m := &ix.mapping
	place := d.Scope + "." + d.Collection
	kind := ix.typeOf(d, object)
	var found *docMapping
	switch {
	case !ix.byCollection():
		if place != defaultPlace {
			return nil
		}
		found = m.Types[kind]
	case m.Types[place+"."+kind] != nil:
		found = m.Types[place+"."+kind]
	case m.Types[place] != nil:
		found = m.Types[place]
	case place != defaultPlace:
		return nil
	}
	if found == nil {
		found = m.Default
	}
	if !found.Enabled {
		return nil
	}
	return found
}

const defaultPlace = "_default._default"

// typeOf is a document's type, by a member or by its key.
func (ix *Index) typeOf(d *Document, object map[string]any) string {
	kind := ""
	switch strings.TrimPrefix(ix.config.Mode, "scope.collection.") {
	case "docid_prefix":
		if before, _, ok := strings.Cut(d.ID, ix.config.Delimiter); ok {
			kind = before
		}
	case "docid_regexp":
		kind = ix.docID.FindString(d.ID)
	default:
		var at any = object
		for _, name := range strings.Split(ix.config.TypeField, ".") {
			members, _ := at.(map[string]any) // nil has no members
			at = members[name]
		}
		kind, _ = at.(string)
	}
	if kind == "" {
		return ix.mapping.DefaultType
	}
	return kind
}

// at follows a path as far as there are mappings: the mapping at its end, nil without one, and the closest before it.
func (m *docMapping) at(path []string) (exact, closest *docMapping) {
	for _, name := range path {
		next := m.Properties[name]
		if next == nil {
			return nil, m
		}
		m = next
	}
	return m, m
}

// analyzerAt is the name of the analyzer that is in force below a path.
func (m *docMapping) analyzerAt(path []string, outer string) string {
	for i := 0; ; i++ {
		if m.Analyzer != "" {
			outer = m.Analyzer
		}
		if i == len(path) || m.Properties[path[i]] == nil {
			return outer
		}
		m = m.Properties[path[i]]
	}
}

// analyzer finds an analyzer by its name, once.
func (m *indexMapping) analyzer(name string) (*analyzer, error) {
	if a, ok := m.analyzers[name]; ok {
		return a, m.analyzerFails[name]
	}
	a, err := m.Analysis.analyzerNamed(name)
	m.analyzers[name], m.analyzerFails[name] = a, err
	return a, err
}

// fieldNamed finds how a field is mapped, by the name that it has in queries.
func (m *indexMapping) fieldNamed(name string) (f *fieldMapping, analyzer string) {
	all := []*docMapping{m.Default}
	for _, t := range m.Types {
		all = append(all, t)
	}
	path := strings.Split(name, ".")
	for _, dm := range all {
		if dm == nil {
			continue
		}
		if f, analyzer := dm.find(nil, name, m.Analyzer); f != nil {
			return f, analyzer
		}
		if exact, _ := dm.at(path); exact != nil || dm.Analyzer != "" {
			analyzer = dm.analyzerAt(path, m.Analyzer)
		}
	}
	if analyzer == "" {
		analyzer = m.Analyzer
	}
	return nil, analyzer
}

// find looks for the mapping of a field below a path.
func (m *docMapping) find(path []string, name, analyzer string) (*fieldMapping, string) {
	if m.Analyzer != "" {
		analyzer = m.Analyzer
	}
	for i := range m.Fields {
		if f := &m.Fields[i]; f.nameAt(path) == name {
			if f.Analyzer != "" {
				analyzer = f.Analyzer
			}
			return f, analyzer
		}
	}
	for member, sub := range m.Properties {
		if sub == nil {
			continue
		}
		if f, a := sub.find(append(path[:len(path):len(path)], member), name, analyzer); f != nil {
			return f, a
		}
	}
	return nil, ""
}

// nameAt is the name of a field: its own in the place of the last member, or the whole path.
func (m *fieldMapping) nameAt(path []string) string {
	if m.Name == "" || len(path) == 0 {
		return strings.Join(path, ".")
	}
	return strings.Join(append(path[:len(path)-1:len(path)-1], m.Name), ".")
}
