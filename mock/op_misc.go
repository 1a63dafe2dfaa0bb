package mock

import (
	"maps"
	"slices"
	"strings"
)

// NOOP, VERSION, QUIT, VERBOSITY and LIST_BUCKETS.

func noop(*request) reply { return reply{} }

func getVersion(rq *request) reply { return reply{value: []byte(rq.k.n.profile.release.kvVersion())} }

func quit(*request) reply { return reply{closes: true} }

// listBuckets are the names of the buckets that the account may use.
func listBuckets(rq *request) reply {
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.buckets)) {
		if rq.user.may(name) {
			names = append(names, name)
		}
	}
	return reply{value: []byte(strings.Join(names, " "))}
}
