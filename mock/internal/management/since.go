package management

import "strings"

// What older servers do not have. A path that the version does not have is as unknown as any other, and a setting is
// not among those of its page.

// since is a version and what came with it: rows of the table, by method and the beginning of the path, and settings.
type since struct {
	major, minor int
	rows         []string
	settings     []string
}

var newerParts = []since{
	{7, 0, []string{" " + scopesPath, " /settings/metrics", " " + poolPath + "/stats/range"}, nil},
	{7, 1, []string{" " + poolPath + "/trustedCAs", "POST /node/controller/loadTrustedCAs"}, nil},
	{7, 2, []string{"PATCH " + collectionPath}, nil},
	{7, 6, []string{" /settings/resourceManagement", " /settings/dataService", " /settings/rbac/backup"}, []string{
		"queryNodeQuota", "queryUseReplica", "queryNodeQuotaValPercent", "queryNumCpus", "queryCompletedMaxPlanSize",
		"enableShardAffinity", "disableMaxCount",
	}},
	{8, 0, []string{" /settings/appTelemetry"}, nil},
}

// known reports whether a version has the path of a row.
func (v Version) known(r *route) bool {
	for i := range newerParts {
		p := &newerParts[i]
		if v.At(p.major, p.minor) {
			continue
		}
		for _, row := range p.rows {
			method, path, _ := strings.Cut(row, " ")
			if (method == "" || method == r.method) && strings.HasPrefix(r.path, path) {
				return false
			}
		}
	}
	return true
}

// has reports whether a version has a setting.
func (v Version) has(setting string) bool {
	for i := range newerParts {
		p := &newerParts[i]
		for _, name := range p.settings {
			if name == setting && !v.At(p.major, p.minor) {
				return false
			}
		}
	}
	return true
}
