package services

import (
	"encoding/json"
	"maps"
	"slices"
)

const statsPath = "/api/stats"

// searchStats are the statistics of one index, or of all indexes for the other paths. All but the number of documents
// are zero.
func (x *Call) searchStats(name string) Answer {
	s := x.s
	s.mu.Lock()
	indexes := maps.Clone(s.searchIndexes)
	s.mu.Unlock()
	if indexes[name] != nil {
		return Answer{Body: toJSON(map[string]any{"feeds": map[string]any{}, "pindexes": map[string]any{
			name: map[string]any{"DocCount": s.searchCount(name)},
		}})}
	}
	if x.rq.Path != statsPath && x.rq.Path != "/api/nsstats" {
		return noSearchIndex(name)
	}
	out := map[string]any{"tot_queryreject_on_memquota": 0, "pct_cpu_gc": 0, "num_bytes_used_ram": 0}
	for _, index := range slices.Sorted(maps.Keys(indexes)) {
		var def struct {
			Source string `json:"sourceName"`
		}
		_ = json.Unmarshal(indexes[index], &def) // without one the name is empty
		out[def.Source+":"+index+":doc_count"] = s.searchCount(index)
		for _, stat := range []string{"num_mutations_to_index", "total_queries", "total_queries_error"} {
			out[def.Source+":"+index+":"+stat] = 0
		}
	}
	return Answer{Body: toJSON(out)}
}
