package management

import "encoding/json"

// wantedManifest is a manifest as clients write it.
type wantedManifest struct {
	Scopes []struct {
		Name        string `json:"name"`
		Collections []struct {
			Name    string `json:"name"`
			MaxTTL  *int32 `json:"maxTTL"`
			History *bool  `json:"history"`
		} `json:"collections"`
	} `json:"scopes"`
}

// names are the scopes of a manifest with the names of their collections.
func (m *wantedManifest) names() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, s := range m.Scopes {
		out[s.Name] = map[string]bool{}
		for _, c := range s.Collections {
			out[s.Name][c.Name] = true
		}
	}
	return out
}

// changes turn the manifest that is there into the one that is wanted. System scopes and the default scope stay.
func (m *wantedManifest) changes(text []byte) []ManifestChange {
	var have wantedManifest
	_ = json.Unmarshal(text, &have) // the host's own
	before, after := have.names(), m.names()
	var out []ManifestChange
	for _, s := range have.Scopes {
		if after[s.Name] == nil && s.Name[0] != '_' {
			out = append(out, ManifestChange{Do: Drop, Scope: s.Name})
			continue
		}
		for _, c := range s.Collections {
			if after[s.Name] != nil && !after[s.Name][c.Name] {
				out = append(out, ManifestChange{Do: Drop, Scope: s.Name, Collection: c.Name})
			}
		}
	}
	for _, s := range m.Scopes {
		if before[s.Name] == nil {
			out = append(out, ManifestChange{Do: Add, Scope: s.Name})
		}
		for _, c := range s.Collections {
			if !before[s.Name][c.Name] {
				out = append(out, ManifestChange{
					Do: Add, Scope: s.Name, Collection: c.Name, MaxTTL: c.MaxTTL,
					History: c.History,
				})
			}
		}
	}
	return out
}
