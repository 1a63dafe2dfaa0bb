package services

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// Statements of the analytics service about dataverses, datasets, indexes and links. A dataset is another name of a
// keyspace; indexes are names alone.

// dataset is one dataset, by the path dataverse.name in State.
type dataset struct{ dataverse, name, source string }

// analytics is what the analytics service has. The mutex of State guards it.
type analytics struct {
	dataverses map[string]bool
	datasets   map[string]dataset
	indexes    map[string]bool              // by dataverse, dataset and name
	links      map[string]map[string]string // the fields of each, by dataverse and name; never changed in place
}

const defaultDataverse = "Default"

func newAnalytics() analytics {
	return analytics{
		dataverses: map[string]bool{defaultDataverse: true}, datasets: map[string]dataset{},
		indexes: map[string]bool{}, links: map[string]map[string]string{},
	}
}

// clone is a copy for a snapshot.
func (a *analytics) clone() analytics {
	return analytics{maps.Clone(a.dataverses), maps.Clone(a.datasets), maps.Clone(a.indexes), maps.Clone(a.links)}
}

const (
	oneName = "(?:`[^`]+`|[A-Za-z_][\\w-]*)"
	aPath   = "(" + oneName + "(?:\\s*[.:]\\s*" + oneName + ")*)"
	unless  = "(\\s+IF\\s+NOT\\s+EXISTS)?"
	ifThere = "(\\s+IF\\s+EXISTS)?"
)

// analyticsForms are the statements that are executed here, with what executes them. Groups of the patterns are its
// arguments; a condition that is empty was not there.
var analyticsForms = []struct {
	pattern *regexp.Regexp
	do      func(a *analytics, s *State, m []string) *Answer
}{
	{form("(DIS)?CONNECT\\s+LINK\\b.*"), func(*analytics, *State, []string) *Answer { return &Answer{} }},
	{form("CREATE\\s+(?:DATAVERSE|ANALYTICS\\s+SCOPE)\\s+" + aPath + unless), (*analytics).createDataverse},
	{form("DROP\\s+(?:DATAVERSE|ANALYTICS\\s+SCOPE)\\s+" + aPath + ifThere), (*analytics).dropDataverse},
	{
		form("CREATE\\s+(?:DATASET|ANALYTICS\\s+COLLECTION)" + unless + "\\s+" + aPath + unless + "\\s+ON\\s+" + aPath +
			"(?:\\s+WHERE\\b.*)?"), (*analytics).createDataset,
	},
	{form("DROP\\s+(?:DATASET|ANALYTICS\\s+COLLECTION)\\s+" + aPath + ifThere), (*analytics).dropDataset},
	{form("ALTER\\s+COLLECTION\\s+" + aPath + "\\s+(ENABLE|DISABLE)\\s+ANALYTICS"), (*analytics).alter},
	{form("CREATE\\s+INDEX\\s+" + aPath + unless + "\\s+ON\\s+" + aPath + "\\s*\\(.*"), (*analytics).createIndex},
	{form("DROP\\s+INDEX\\s+" + aPath + ifThere), (*analytics).dropIndex},
}

func form(text string) *regexp.Regexp { return regexp.MustCompile("(?is)^\\s*" + text + "\\s*;?\\s*$") }

// metadata is how statements name the keyspaces about datasets.
var metadata = regexp.MustCompile("(?i)\\bMetadata\\s*\\.\\s*`?(Dataset|Dataverse|Index|Link)`?(\\s|$)")

// analyticsStatement executes a statement of analyticsForms, and reports whether it is one.
func (x *Call) analyticsStatement() (Answer, bool) {
	for _, f := range analyticsForms {
		if m := f.pattern.FindStringSubmatch(x.rq.Statement); m != nil {
			return *f.do(&x.s.analytics, x.s, m), true
		}
	}
	return Answer{}, false
}

// splitDataset is a path in its last part, and what stands before that: the default dataverse, or others with slashes
// between them.
func splitDataset(path string) (dataverse, name string) {
	parts := strings.Split(unquotedName(path), ".")
	name = parts[len(parts)-1]
	if dataverse = strings.Join(parts[:len(parts)-1], "/"); dataverse == "" {
		dataverse = defaultDataverse
	}
	return dataverse, name
}

func (a *analytics) createDataverse(s *State, m []string) *Answer {
	name := strings.ReplaceAll(unquotedName(m[1]), ".", "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.dataverses[name] && m[2] == "" {
		return failure1(24039, "An analytics scope with this name %s already exists.", name)
	}
	a.dataverses[name] = true
	return &Answer{}
}

func (a *analytics) dropDataverse(s *State, m []string) *Answer {
	name := strings.ReplaceAll(unquotedName(m[1]), ".", "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.dataverses[name] && m[2] == "" {
		return failure1(24034, "Cannot find analytics scope with name %s", name)
	}
	if name == defaultDataverse {
		return failure1(24049, "Cannot drop analytics scope: %s", name)
	}
	delete(a.dataverses, name)
	maps.DeleteFunc(a.datasets, func(_ string, d dataset) bool { return d.dataverse == name })
	maps.DeleteFunc(a.links, func(_ string, l map[string]string) bool { return l["dataverse"] == name })
	return &Answer{}
}

func (a *analytics) createDataset(s *State, m []string) *Answer {
	dataverse, name := splitDataset(m[2])
	return a.add(s, dataset{dataverse, name, unquotedName(m[4])}, m[1]+m[3] != "", false)
}

// add makes a dataset; lenient leaves one that is there, and grow makes its dataverse too.
func (a *analytics) add(s *State, d dataset, lenient, grow bool) *Answer {
	if _, _, failure := s.placeOf(strings.Split(d.source, ".")); failure != nil {
		return failure1(24025, "Cannot find bucket %s", d.source)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if grow {
		a.dataverses[d.dataverse] = true
	}
	if !a.dataverses[d.dataverse] {
		return failure1(24034, "Cannot find analytics scope with name %s", d.dataverse)
	}
	key := d.dataverse + "." + d.name
	if _, known := a.datasets[key]; known {
		if lenient {
			return &Answer{}
		}
		return failure1(24040, "An analytics collection with name %s already exists in analytics scope %s", d.name,
			d.dataverse)
	}
	a.datasets[key] = d
	return &Answer{}
}

func (a *analytics) dropDataset(s *State, m []string) *Answer {
	dataverse, name := splitDataset(m[1])
	s.mu.Lock()
	defer s.mu.Unlock()
	key := dataverse + "." + name
	if _, known := a.datasets[key]; !known && m[2] == "" {
		return failure1(24025, "Cannot find analytics collection with name %s in analytics scope %s", name, dataverse)
	}
	delete(a.datasets, key)
	return &Answer{}
}

// alter gives a collection a dataset of its own name in a dataverse of its bucket and scope, or takes it away.
func (a *analytics) alter(s *State, m []string) *Answer {
	source := unquotedName(m[1])
	parts := strings.Split(source, ".")
	if len(parts) == 1 {
		parts = append(parts, "_default", "_default")
	}
	dataverse, name := splitDataset(strings.Join(parts, "."))
	if strings.EqualFold(m[2], "DISABLE") {
		return a.dropDataset(s, []string{"", strings.Join(parts, "."), " IF EXISTS"})
	}
	return a.add(s, dataset{dataverse, name, source}, true, true)
}

func (a *analytics) createIndex(s *State, m []string) *Answer {
	dataverse, set := splitDataset(m[3])
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := a.datasets[dataverse+"."+set]; !known {
		return failure1(24025, "Cannot find analytics collection with name %s in analytics scope %s", set, dataverse)
	}
	key := dataverse + "." + set + "." + unquotedName(m[1])
	if a.indexes[key] && m[2] == "" {
		return failure1(24048, "An index with this name %s already exists", unquotedName(m[1]))
	}
	a.indexes[key] = true
	return &Answer{}
}

func (a *analytics) dropIndex(s *State, m []string) *Answer {
	place := unquotedName(m[1])
	at := strings.LastIndexByte(place, '.')
	if at < 0 {
		return failure1(24000, "syntax error: an index is named behind its analytics collection")
	}
	dataverse, set := splitDataset(place[:at])
	key := dataverse + "." + set + place[at:]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.indexes[key] && m[2] == "" {
		return failure1(24047, "Cannot find index with name %s", place[at+1:])
	}
	delete(a.indexes, key)
	return &Answer{}
}

// pending are the mutations that the datasets lack: none, by dataverse and dataset.
func (s *State) pending() Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]int{}
	for _, d := range s.analytics.datasets {
		if out[d.dataverse] == nil {
			out[d.dataverse] = map[string]int{}
		}
		out[d.dataverse][d.name] = 0
	}
	return Answer{Body: toJSON(out)}
}

// datasets is the store of the analytics service: a keyspace is a dataset by its name.
type datasets struct{ queryStore }

func (d *datasets) Keyspace(parts []string) (sqlpp.Keyspace, *sqlpp.Error) {
	dataverse, name := splitDataset(strings.Join(parts, "."))
	d.s.mu.Lock()
	found, known := d.s.analytics.datasets[dataverse+"."+name]
	d.s.mu.Unlock()
	if !known {
		return sqlpp.Keyspace{}, &sqlpp.Error{
			Code: 24045, Message: fmt.Sprintf("Cannot find analytics collection %s in analytics scope %s nor an alias "+
				"with name %s", name, dataverse, name),
		}
	}
	return d.queryStore.Keyspace(strings.Split(found.source, "."))
}

// System has the keyspaces of Metadata beside the system's, none of which has such a name.
func (d *datasets) System(name string) ([]map[string]any, bool) {
	switch what := strings.ToLower(name); what {
	case "dataset", "dataverse", "index", "link":
		return d.s.metadataRows(what), true
	}
	return d.queryStore.System(name)
}

// withMetadata lets a statement find the keyspaces of Metadata among the system's, under their names, which are those
// of the rows too.
func withMetadata(statement string) string {
	return metadata.ReplaceAllString(statement, "system:`$1`$2")
}

// metadataRows are what Metadata says about dataverses, datasets, indexes and links.
func (s *State) metadataRows(what string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []map[string]any
	a := &s.analytics
	switch what {
	case "dataverse":
		for _, name := range slices.Sorted(maps.Keys(a.dataverses)) {
			rows = append(rows, map[string]any{"DataverseName": name, "DataFormat": ""})
		}
	case "link":
		for _, name := range slices.Sorted(maps.Keys(a.dataverses)) {
			rows = append(rows, map[string]any{"DataverseName": name, "Name": "Local", "IsActive": true})
		}
	case "dataset":
		for _, key := range slices.Sorted(maps.Keys(a.datasets)) {
			d := a.datasets[key]
			bucket, _, _ := strings.Cut(d.source, ".")
			rows = append(rows, map[string]any{
				"DatasetName": d.name, "DataverseName": d.dataverse, "LinkName": "Local", "BucketName": bucket,
				"DatasetType": "INTERNAL", "BucketDataverseName": "",
			})
		}
	case "index":
		for _, key := range slices.Sorted(maps.Keys(a.indexes)) {
			parts := strings.Split(key, ".")
			rows = append(rows, map[string]any{
				"IndexName": parts[2], "DataverseName": parts[0], "DatasetName": parts[1], "IsPrimary": false,
				"IndexStructure": "BTREE",
			})
		}
	}
	return rows
}
