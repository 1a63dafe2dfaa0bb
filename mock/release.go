package mock

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// release is a version of the server: sixteen bits each of major and minor, and eight of the patch, see releaseOf.
type release uint64

func releaseOf(major, minor, patch uint64) release { return release(major<<32 | minor<<16 | patch) }

func (r release) major() uint64 { return uint64(r >> 32) }
func (r release) minor() uint64 { return uint64(r >> 16 & 0xffff) }
func (r release) patch() uint64 { return uint64(r & 0xffff) }

// line is the release without its patch, as cluster compatibility counts.
func (r release) line() release { return r &^ 0xffff }

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r.major(), r.minor(), r.patch()) }

// kvVersion is what the KV command VERSION answers. The build number says that this is no server.
func (r release) kvVersion() string { return r.String() + "-0000" }

// httpVersion is the version that the management service states.
func (r release) httpVersion() string { return r.kvVersion() + "-enterprise" }

// parseRelease reads "7.6", which is the newest release of that line that the tables know, or "7.6.2".
func parseRelease(text string) (release, error) {
	parts := strings.Split(text, ".")
	var n [3]uint64
	for i, part := range parts {
		var err error
		if i < len(n) {
			n[i], err = strconv.ParseUint(part, 10, 8)
		}
		if err != nil || len(parts) < 2 || len(parts) > 3 {
			return 0, fmt.Errorf("mock: server version %q, want one as 7.6 or 7.6.2", text)
		}
	}
	r := releaseOf(n[0], n[1], n[2])
	for _, newest := range releases {
		switch {
		case newest.line() != r.line():
		case len(parts) == 2:
			return newest, nil
		case r <= newest:
			return r, nil
		}
	}
	var known []string
	for _, newest := range releases {
		known = append(known, newest.line().String()+" to "+newest.String())
	}
	return 0, fmt.Errorf("mock: server version %q is not known, want one of %s", text, strings.Join(known, ", "))
}

// Version makes every node one of a server version: "6.6", "7.0", "7.1", "7.2", "7.6" or "8.0", which stand for the
// newest maintenance release that is known of each, or a release such as "7.6.0". Unless told it is "8.0". The version
// decides which features HELLO grants, which commands, flags and frames are known, the error map, the fields and the
// capabilities of configurations, and what nodes say that they are. FIDELITY.md has the list.
func Version(version string) Option {
	return func(s *settings) { s.release, s.releaseErr = keepFirst(s.releaseErr)(parseRelease(version)) }
}

// NodeVersion is Version for one node, also for one that is added later, and goes before it: a cluster in the middle of
// an upgrade. Such a cluster announces the capabilities that its oldest member has.
func NodeVersion(node int, version string) Option {
	return func(s *settings) {
		var r release
		r, s.releaseErr = keepFirst(s.releaseErr)(parseRelease(version))
		if s.nodeReleases == nil {
			s.nodeReleases = map[int]release{}
		}
		s.nodeReleases[node] = r
	}
}

func keepFirst(first error) func(release, error) (release, error) {
	return func(r release, err error) (release, error) {
		if first != nil {
			return r, first
		}
		return r, err
	}
}

func (s *settings) releaseOf(node int) release {
	if r, ok := s.nodeReleases[node]; ok {
		return r
	}
	return s.release
}

// profile is what the tables say of one release, ready to use. All nodes of a release share it.
type profile struct {
	release release
	hello   memd.Features
	has     [factCount]bool
	unknown [256]bool // commands of newer releases
	errors  *errorMap // guarded by the cluster's mutex

	parameters map[string]bool // of requests to the query service
}

func newProfile(r release) *profile {
	p := &profile{release: r, errors: defaultErrorMap(r), parameters: map[string]bool{}}
	for _, row := range helloRows {
		if row.holds(r) {
			p.hello = p.hello.With(row.what)
		}
	}
	for _, row := range factRows {
		p.has[row.what] = row.holds(r)
	}
	for _, row := range commandRows {
		p.unknown[row.what] = !row.holds(r)
	}
	for _, row := range parameterRows {
		for name := range strings.FieldsSeq(row.what) {
			p.parameters[name] = row.holds(r)
		}
	}
	return p
}

// profiles makes a profile for every release that a node is, or may get, of.
func (s *settings) profiles() map[release]*profile {
	out := map[release]*profile{s.release: newProfile(s.release)}
	for _, r := range s.nodeReleases {
		if out[r] == nil {
			out[r] = newProfile(r)
		}
	}
	return out
}

// has reports whether a fact holds for the request's node.
func (rq *request) has(f fact) bool { return rq.k.n.profile.has[f] }

// paths is what the node's sub-document engine can do.
func (rq *request) paths() subdoc.Rules {
	has := &rq.k.n.profile.has
	most := subdoc.MaxPaths
	if has[factMaxPathsSetting] {
		most = rq.k.c.set.maxPaths
	}
	return subdoc.Rules{
		MaxPaths: most, Xattrs: rq.features.Has(memd.FeatureXattr),
		UserFlags: has[factSubdocUserFlags], Binary: has[factSubdocBinary], ManyAttributes: has[factSubdocManyXattrs],
		DocumentMacros: has[factSubdocDocumentMacros], Revive: has[factSubdocRevive],
		ReplicaRead: has[factSubdocReplicaRead], DeletedReplicas: has[factSubdocDeletedReplicas],
	}
}

// compat is the cluster's compatibility: the line of its oldest member. The caller holds the mutex.
func (c *Cluster) compat() release {
	least := c.set.release.line()
	first := true
	for _, n := range c.nodes {
		if n.member == memberOut {
			continue
		}
		if line := n.profile.release.line(); first || line < least {
			least, first = line, false
		}
	}
	return least
}

// Version is the version of the server that the node is one of, such as "8.0.1".
func (n *Node) Version() string { return n.profile.release.String() }
