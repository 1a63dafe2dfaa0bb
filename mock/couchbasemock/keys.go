package couchbasemock

import (
	"fmt"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// changeKey changes a document on the nodes that the payload names.
func changeKey(do mock.CopyChange) func(*Control, args) (any, error) {
	return func(x *Control, a args) (any, error) {
		key, name, err := x.keyOf(a)
		if err != nil {
			return nil, err
		}
		master, err := a.flag("OnMaster", false)
		switch {
		case err != nil:
			return nil, err
		case a["OnMaster"] == nil:
			return nil, missing("OnMaster")
		case a["OnReplicas"] == nil:
			return nil, missing("OnReplicas")
		}
		cas, err := a.number("CAS", ptr(int64(0)))
		if err != nil {
			return nil, err
		}
		value, err := a.text("Value", "")
		if err != nil {
			return nil, err
		}
		copies, err := x.c.Copies(name, key)
		if err != nil {
			return nil, noBucket(name)
		}
		nodes, err := nodesOf(a, copies, master)
		if err != nil {
			return nil, err
		}
		var with *mock.Document
		if cas != 0 {
			with = &mock.Document{Value: []byte(value), CAS: uint64(cas)}
			if cas < 0 {
				with.CAS = (with.CAS + 1) * 2
			}
		}
		return nil, x.c.ChangeCopies(name, key, nodes, do, with)
	}
}

func noBucket(name string) error {
	return fmt.Errorf("No such bucket: %s", name) //nolint:staticcheck // the text that clients know
}

// keyOf are the key and the bucket of a command, whose names begin with capitals.
func (x *Control) keyOf(a args) (key, bucket string, err error) {
	if key, err = a.text("Key", ""); err == nil && key == "" {
		key, err = a.text("key", "")
	}
	if err == nil && key == "" {
		err = missing("Key")
	}
	if err != nil {
		return "", "", err
	}
	bucket, err = a.text("Bucket", mock.DefaultBucket)
	return key, bucket, err
}

// nodesOf are the nodes that a command is for: the active one, and the first n replicas or those at some places.
func nodesOf(a args, copies []mock.Copy, master bool) ([]int, error) {
	var nodes, replicas []int
	at := map[int]int{}
	for _, c := range copies {
		at[c.Place] = c.Node
		switch {
		case c.Place > 0:
			replicas = append(replicas, c.Node)
		case master:
			nodes = append(nodes, c.Node)
		}
	}
	if n, ok := a["OnReplicas"].(float64); ok {
		if int(n) < 0 || int(n) > len(replicas) {
			return nil, fmt.Errorf("%d replicas, there are %d", int(n), len(replicas))
		}
		return append(nodes, replicas[:int(n)]...), nil
	}
	places, err := a.list("OnReplicas")
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		node, ok := at[1+p]
		if p < 0 || !ok {
			return nil, fmt.Errorf("no replica %d", p)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// itemJSON is a document in KEYINFO, of what a node has in memory or on disk.
func itemJSON(d *mock.Document) map[string]any {
	if d == nil {
		return map[string]any{}
	}
	return map[string]any{"Value": string(d.Value), "CAS": d.CAS, "Snappy": d.Datatype&memd.DatatypeSnappy != 0}
}

func keyInfo(x *Control, a args) (any, error) {
	key, name, err := x.keyOf(a)
	if err != nil {
		return nil, err
	}
	copies, err := x.c.Copies(name, key)
	if err != nil {
		return nil, noBucket(name)
	}
	out := make([]any, len(x.c.Nodes()))
	for _, c := range copies {
		out[c.Node] = map[string]any{
			"Conf":  map[string]any{"Index": c.Place, "Type": []string{"master", "replica"}[min(c.Place, 1)]},
			"Cache": itemJSON(c.Memory), "Disk": itemJSON(c.Disk),
		}
	}
	return out, nil
}
