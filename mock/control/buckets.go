package control

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// NewBucket says what bucket to make.
type NewBucket struct {
	Name        string   `json:"name"`
	Type        string   `json:"type,omitempty" doc:"couchbase, ephemeral or memcached"`
	VBuckets    int      `json:"vbuckets,omitempty" doc:"absent for the cluster's"`
	Replicas    *int     `json:"replicas,omitempty" doc:"absent for the cluster's"`
	Compression string   `json:"compression,omitempty" doc:"off, passive or active"`
	Durability  string   `json:"minimum_durability,omitempty" doc:"majority, majority_and_persist_to_active or persist_to_majority"`
	ByTime      bool     `json:"resolve_by_time,omitempty" doc:"the last write wins"`
	Collections []string `json:"collections,omitempty" doc:"scope.collection"`
}

func createBucket(c *call, in *NewBucket) (Bucket, error) {
	kind, err := mock.KindOfBucket(in.Type)
	if err != nil {
		return Bucket{}, invalid("type", "%q is not couchbase, ephemeral or memcached", in.Type)
	}
	opts := []mock.BucketOption{kind}
	if in.Replicas != nil {
		opts = append(opts, mock.WithReplicas(*in.Replicas))
	}
	if in.Compression != "" {
		opts = append(opts, mock.Compression(in.Compression))
	}
	if in.Durability != "" {
		i := slices.Index(durabilityNames, in.Durability)
		if i < 0 {
			return Bucket{}, invalid("minimum_durability", "%q is not a level", in.Durability)
		}
		opts = append(opts, mock.WithDurability(memd.DurabilityLevel(i)))
	}
	if in.ByTime {
		opts = append(opts, mock.ResolveByTime())
	}
	for _, path := range in.Collections {
		scope, name, ok := strings.Cut(path, ".")
		if !ok {
			return Bucket{}, invalid("collections", "%q is not scope.collection", path)
		}
		opts = append(opts, mock.WithCollection(scope, name))
	}
	if err := c.x.c.CreateBucket(in.Name, in.VBuckets, opts...); err != nil {
		return Bucket{}, err
	}
	return Bucket{Name: in.Name, Collections: c.x.c.Collections(in.Name)}, nil
}

// onBucket is a route that does something to the bucket of its path.
func (c *call) onBucket(f func(name string) error) (nothing, error) {
	name, err := c.bucket()
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, f(name)
}

func dropBucket(c *call, _ *nothing) (nothing, error)  { return c.onBucket(c.x.c.DropBucket) }
func flushBucket(c *call, _ *nothing) (nothing, error) { return c.onBucket(c.x.c.Flush) }

func renewHistories(c *call, _ *nothing) (nothing, error) { return c.onBucket(c.x.c.RenewHistories) }

// BucketSettings are properties of a bucket.
type BucketSettings struct {
	ReplicaLag  *int64      `json:"replica_lag_ms,omitempty" doc:"how long replicas are behind"`
	PersistLag  *int64      `json:"persist_lag_ms,omitempty" doc:"how long disks are behind"`
	Compression string      `json:"compression,omitempty" doc:"off, passive or active"`
	ConfigByKV  *bool       `json:"config_over_kv,omitempty" doc:"whether nodes give out the configuration over key-value"`
	ErrorBodies *bool       `json:"error_bodies,omitempty" doc:"whether failures have a JSON body that explains them"`
	ManifestLag *bool       `json:"manifest_lag,omitempty" doc:"whether nodes go on with the collections that the bucket has now"`
	Durability  *Durability `json:"durability,omitempty" doc:"how durable writes go; an empty object for as in a healthy bucket"`
	ScanLimit   *int        `json:"scan_limit,omitempty" doc:"range scans at once; 0 for as many as a server allows"`
	ScanPace    *int64      `json:"scan_pace_ms,omitempty" doc:"before each packet of a scan"`
	LogLimit    *int        `json:"apply_log_limit,omitempty" doc:"the newest so many entries of the log of mutations are kept; 0 for all"`
	Nodes       []int       `json:"nodes,omitempty" doc:"that config_over_kv, error_bodies and manifest_lag are for; absent for all"`
}

// Durability is how durable writes go.
type Durability struct {
	Time       int64 `json:"time_ms,omitempty" doc:"how long they take"`
	Ambiguous  bool  `json:"ambiguous,omitempty" doc:"they end as ambiguous"`
	Applied    bool  `json:"applied,omitempty" doc:"and are applied all the same"`
	Impossible bool  `json:"impossible,omitempty" doc:"they are refused"`
}

func bucketSettings(c *call, in *BucketSettings) (nothing, error) {
	m := c.x.c
	if err := c.nodes("nodes", in.Nodes); err != nil {
		return nothing{}, err
	}
	lag := func(set func(string, time.Duration) error, ms *int64, field, name string) error {
		switch {
		case ms == nil:
			return nil
		case *ms < 0 || *ms > (24*time.Hour).Milliseconds():
			e := invalid(field, "%d ms are not allowed", *ms)
			e.Limit = (24 * time.Hour).Milliseconds()
			return e
		}
		return set(name, time.Duration(*ms)*time.Millisecond)
	}
	return c.onBucket(func(name string) error {
		for _, step := range []func() error{
			func() error { return lag(m.SetReplicaLag, in.ReplicaLag, "replica_lag_ms", name) },
			func() error { return lag(m.SetPersistLag, in.PersistLag, "persist_lag_ms", name) },
			func() error { return lag(m.SetScanPace, in.ScanPace, "scan_pace_ms", name) },
			func() error { return in.switches(c, name) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// switches sets what is not a time.
func (s *BucketSettings) switches(c *call, name string) error {
	m := c.x.c
	if s.Compression != "" {
		if err := m.SetCompression(name, s.Compression); err != nil {
			return invalid("compression", "%q is not off, passive or active", s.Compression)
		}
	}
	if s.ConfigByKV != nil {
		if err := m.SetConfigOverKV(name, *s.ConfigByKV, s.Nodes...); err != nil {
			return err
		}
	}
	if s.ErrorBodies != nil {
		if err := m.SetErrorBodies(name, *s.ErrorBodies, s.Nodes...); err != nil {
			return err
		}
	}
	if s.ManifestLag != nil {
		if err := m.SetManifestLag(name, *s.ManifestLag, s.Nodes...); err != nil {
			return err
		}
	}
	if d := s.Durability; d != nil {
		if err := m.SetDurability(name, mock.Durability{
			Time: time.Duration(d.Time) * time.Millisecond, Ambiguous: d.Ambiguous, Applied: d.Applied,
			Impossible: d.Impossible,
		}); err != nil {
			return err
		}
	}
	if s.ScanLimit != nil {
		if err := m.SetScanLimit(name, *s.ScanLimit); err != nil {
			return err
		}
	}
	if s.LogLimit != nil {
		return m.LimitApplyLog(name, *s.LogLimit)
	}
	return nil
}

// Move names a node.
type Move struct {
	Node int `json:"node"`
}

func moveVBucket(c *call, in *Move) (nothing, error) {
	return c.onBucket(func(name string) error {
		vb, err := strconv.Atoi(c.r.PathValue("vbucket"))
		if err != nil {
			return notFound("vbucket", "%q is not a number", c.r.PathValue("vbucket"))
		}
		if err := c.nodes("node", []int{in.Node}); err != nil {
			return err
		}
		return c.x.c.MoveVBucket(name, vb, in.Node)
	})
}

// KeyQuery names a document.
type KeyQuery struct {
	Key string `json:"key"`
}

// Where is where a document is.
type Where struct {
	VBucket  int   `json:"vbucket"`
	Active   int   `json:"active" doc:"the number of the node; -1 for none"`
	Replicas []int `json:"replicas" doc:"the numbers of the nodes; -1 for none"`
}

func where(c *call, in *KeyQuery) (Where, error) {
	name, err := c.bucket()
	if err != nil {
		return Where{}, err
	}
	vb, nodes, err := c.x.c.Where(name, in.Key)
	if err != nil {
		return Where{}, err
	}
	return Where{vb, nodes[0], nodes[1:]}, nil
}

// Map is where the copies of all vbuckets are.
type Map struct {
	Rows [][]int `json:"rows" doc:"of each vbucket the numbers of its nodes, the active one first; -1 for none; no rows in a memcached bucket"`
}

func vbuckets(c *call, _ *nothing) (Map, error) {
	name, err := c.bucket()
	if err != nil {
		return Map{}, err
	}
	return Map{c.x.c.Map(name)}, nil
}

// Collection names a collection, or a scope.
type Collection struct {
	Scope      string `json:"scope"`
	Collection string `json:"collection" doc:"absent for the scope alone"`
}

func createCollection(c *call, in *Collection) (Bucket, error) {
	name, err := c.bucket()
	if err != nil {
		return Bucket{}, err
	}
	if in.Collection == "" {
		_, err = c.x.c.CreateScope(name, in.Scope)
	} else {
		_, err = c.x.c.CreateCollection(name, in.Scope, in.Collection)
	}
	return Bucket{Name: name, Collections: c.x.c.Collections(name)}, err
}

func dropCollection(c *call, in *Collection) (Bucket, error) {
	name, err := c.bucket()
	if err != nil {
		return Bucket{}, err
	}
	if in.Collection == "" {
		err = c.x.c.DropScope(name, in.Scope)
	} else {
		err = c.x.c.DropCollection(name, in.Scope, in.Collection)
	}
	return Bucket{Name: name, Collections: c.x.c.Collections(name)}, err
}

// Hold names the document that is held.
type Hold struct {
	Collection string `json:"collection,omitempty" doc:"scope.collection; absent for the default one"`
	Key        string `json:"key"`
	Recommit   bool   `json:"recommit,omitempty" doc:"reads are refused too, as while a write is committed again"`
}

// Held is its id.
type Held struct {
	ID string `json:"id"`
}

func hold(c *call, in *Hold) (Held, error) {
	name, err := c.bucket()
	if err != nil {
		return Held{}, err
	}
	begin := c.x.c.HoldPrepare
	if in.Recommit {
		begin = c.x.c.HoldRecommit
	}
	x := c.x
	x.mu.Lock()
	full := len(x.holds) >= MaxObjects
	x.mu.Unlock()
	if full {
		return Held{}, tooMany("holds", MaxObjects)
	}
	end, err := begin(name, in.Collection, in.Key)
	if err != nil {
		return Held{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	id := x.id("h")
	x.holds[id] = end
	return Held{id}, nil
}

func endHold(c *call, _ *nothing) (nothing, error) {
	id := c.r.PathValue("id")
	c.x.mu.Lock()
	end := c.x.holds[id]
	delete(c.x.holds, id)
	c.x.mu.Unlock()
	if end == nil {
		return nothing{}, notFound("id", "there is no hold %q", id)
	}
	end()
	return nothing{}, nil
}

func putDesign(c *call, in *json.RawMessage) (nothing, error) {
	return c.onBucket(func(name string) error {
		return c.x.c.PutDesignDocument(name, c.r.PathValue("design"), string(*in))
	})
}

func dropDesign(c *call, _ *nothing) (nothing, error) {
	return c.onBucket(func(name string) error {
		if !c.x.c.DropDesignDocument(name, c.r.PathValue("design")) {
			return notFound("design", "there is no design document %q", c.r.PathValue("design"))
		}
		return nil
	})
}
