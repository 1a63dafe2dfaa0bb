package main

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// kvCmd has one command per operation.
type kvCmd struct {
	connectFlags
	OnBehalfOf string `placeholder:"USER" help:"Act with the privileges of this user (default: your own)."`

	Get         kvGet         `cmd:"" help:"Read a document."`
	GetOrNull   kvGetOrNull   `cmd:"" help:"Read a document that may be missing: then there is no output."`
	Exists      kvExists      `cmd:"" help:"Ask whether a document exists."`
	Insert      kvInsert      `cmd:"" help:"Write a document that does not exist."`
	Upsert      kvUpsert      `cmd:"" help:"Write a document, whether or not it exists."`
	Replace     kvReplace     `cmd:"" help:"Write a document that exists."`
	Remove      kvRemove      `cmd:"" help:"Remove a document."`
	Touch       kvTouch       `cmd:"" help:"Set a document's expiry."`
	GetAndTouch kvGetAndTouch `cmd:"" help:"Read a document and set its expiry."`
	GetAndLock  kvGetAndLock  `cmd:"" help:"Read a document and lock it."`
	Unlock      kvUnlock      `cmd:"" help:"Unlock a document; --cas is the lock's."`
	Increment   kvIncrement   `cmd:"" help:"Add to a counter."`
	Decrement   kvDecrement   `cmd:"" help:"Subtract from a counter, down to 0."`
	Append      kvAppend      `cmd:"" help:"Add bytes at the end of a document."`
	Prepend     kvPrepend     `cmd:"" help:"Add bytes at the start of a document."`
	kvReplicaVerbs
	kvPathVerbs
	kvMetaVerbs
	kvNodeVerbs
}

type keyArg struct {
	Key string `arg:"" help:"The document's key."`
}

type valueArg struct {
	Value string `arg:"" help:"The value; - reads standard input."`
}

type casFlag struct {
	CAS string `name:"cas" placeholder:"N" help:"Only this version: decimal, or hexadecimal with 0x (default: any)."`
}

type expiryFlag struct {
	Expiry   time.Duration `xor:"expiry" help:"Expire after this long (default: never)."`
	ExpireAt time.Time     `xor:"expiry" placeholder:"TIME" help:"Expire at this time, as in 2030-01-02T15:04:05Z (default: never)."`
}

type levelFlag struct {
	Durability string `enum:"none,majority,majority-and-persist,persist-to-majority" default:"none" placeholder:"LEVEL" help:"none, majority, majority-and-persist or persist-to-majority (default: none)."`
}

// durableFlag is for writes that can be watched as well.
type durableFlag struct {
	levelFlag
	PersistTo   int `placeholder:"N" help:"Wait until this many nodes have it on disk; not with --durability (default: 0)."`
	ReplicateTo int `placeholder:"N" help:"Wait until this many replicas have it; not with --durability (default: 0)."`
}

type preserveFlag struct {
	PreserveExpiry bool `help:"Keep the expiry that the document has (default: no)."`
}

type flagsFlag struct {
	Flags uint32 `help:"The flags to store with the document (default: 0)."`
}

type deltaFlags struct {
	Delta   uint64  `default:"1" help:"By how much (default: 1)."`
	Initial *uint64 `placeholder:"N" help:"What a missing counter begins with (default: it stays missing)."`
}

func (f casFlag) cas() (uint64, error) {
	if f.CAS == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(f.CAS, 0, 64)
	if err != nil {
		return 0, usagef("--cas %s is neither a decimal number nor a hexadecimal one with 0x", f.CAS)
	}
	return n, nil
}

func (f expiryFlag) expiry() kv.Expiry {
	if !f.ExpireAt.IsZero() {
		return kv.ExpireAt(f.ExpireAt)
	}
	return kv.ExpireAfter(f.Expiry)
}

// durabilityLevels are the names that --durability takes.
var durabilityLevels = map[string]memd.DurabilityLevel{
	"none":                 memd.DurabilityNone,
	"majority":             memd.DurabilityMajority,
	"majority-and-persist": memd.DurabilityMajorityAndPersistToActive,
	"persist-to-majority":  memd.DurabilityPersistToMajority,
}

func (f levelFlag) level() memd.DurabilityLevel { return durabilityLevels[f.Durability] }

// datatypeOf marks a value that is JSON as such.
func datatypeOf(value []byte) memd.Datatype {
	if json.Valid(value) {
		return memd.DatatypeJSON
	}
	return 0
}

type kvGet struct {
	keyArg
	Path       []string `sep:"none" help:"Only this path of the document. Can be repeated."`
	WithExpiry bool     `help:"Show when the document expires (default: no)."`
}

// Run implements the command.
func (c *kvGet) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get", c.Key, func(o kv.Common) (kv.Get, error) {
		return kv.Get{Common: o, Key: []byte(c.Key), Paths: c.Path, WithExpiry: c.WithExpiry}, nil
	}, func(r kv.GetResult) view {
		v := viewGet(r)
		if c.WithExpiry {
			v.more = append(v.more, extra{"expiry", timeOf(r.Expiry())})
		}
		return v
	})
}

type kvGetOrNull struct{ keyArg }

// Run implements the command.
func (c *kvGetOrNull) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-or-null", c.Key, func(o kv.Common) (kv.GetOrNull, error) {
		return kv.GetOrNull{Common: o, Key: []byte(c.Key)}, nil
	}, func(r kv.GetResult) view {
		v := view{Result: r.Result, lines: []string{}}
		if !r.Absent {
			v = viewGet(r)
		}
		v.more = append(v.more, extra{"found", !r.Absent})
		return v
	})
}

type kvExists struct{ keyArg }

// Run implements the command.
func (c *kvExists) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "exists", c.Key, func(o kv.Common) (kv.Exists, error) {
		return kv.Exists{Common: o, Key: []byte(c.Key)}, nil
	}, viewExists)
}

type kvInsert struct {
	keyArg
	valueArg
	flagsFlag
	expiryFlag
	durableFlag
}

// Run implements the command.
func (c *kvInsert) Run(a *app, k *kvCmd) error {
	return runWrite(a, k, "insert", c.Key, c.durableFlag, func(o kv.Common) (kv.Insert, error) {
		v, err := valueOf(a, c.Value)
		return kv.Insert{
			Common: o, Key: []byte(c.Key), Value: v, Flags: c.Flags, Datatype: datatypeOf(v), Expiry: c.expiry(),
			Durability: c.level(),
		}, err
	})
}

type kvUpsert struct {
	keyArg
	valueArg
	flagsFlag
	casFlag
	expiryFlag
	durableFlag
	preserveFlag
}

// Run implements the command.
func (c *kvUpsert) Run(a *app, k *kvCmd) error {
	return runWrite(a, k, "upsert", c.Key, c.durableFlag, func(o kv.Common) (kv.Upsert, error) {
		cas, err := c.cas()
		if err != nil {
			return kv.Upsert{}, err
		}
		v, err := valueOf(a, c.Value)
		return kv.Upsert{
			Common: o, Key: []byte(c.Key), Value: v, Flags: c.Flags, Datatype: datatypeOf(v), Expiry: c.expiry(),
			CAS:        cas,
			Durability: c.level(), PreserveExpiry: c.PreserveExpiry,
		}, err
	})
}

type kvReplace kvUpsert

// Run implements the command.
func (c *kvReplace) Run(a *app, k *kvCmd) error {
	return runWrite(a, k, "replace", c.Key, c.durableFlag, func(o kv.Common) (kv.Replace, error) {
		cas, err := c.cas()
		if err != nil {
			return kv.Replace{}, err
		}
		v, err := valueOf(a, c.Value)
		return kv.Replace{
			Common: o, Key: []byte(c.Key), Value: v, Flags: c.Flags, Datatype: datatypeOf(v), Expiry: c.expiry(),
			CAS:        cas,
			Durability: c.level(), PreserveExpiry: c.PreserveExpiry,
		}, err
	})
}

type kvRemove struct {
	keyArg
	casFlag
	durableFlag
}

// Run implements the command.
func (c *kvRemove) Run(a *app, k *kvCmd) error {
	return runWrite(a, k, "remove", c.Key, c.durableFlag, func(o kv.Common) (kv.Remove, error) {
		cas, err := c.cas()
		return kv.Remove{Common: o, Key: []byte(c.Key), CAS: cas, Durability: c.level()}, err
	})
}

type kvTouch struct {
	keyArg
	expiryFlag
}

// Run implements the command.
func (c *kvTouch) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "touch", c.Key, func(o kv.Common) (kv.Touch, error) {
		return kv.Touch{Common: o, Key: []byte(c.Key), Expiry: c.expiry()}, nil
	}, viewMutation)
}

type kvGetAndTouch struct {
	keyArg
	expiryFlag
}

// Run implements the command.
func (c *kvGetAndTouch) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-and-touch", c.Key, func(o kv.Common) (kv.GetAndTouch, error) {
		return kv.GetAndTouch{Common: o, Key: []byte(c.Key), Expiry: c.expiry()}, nil
	}, viewGet)
}

type kvGetAndLock struct {
	keyArg
	LockTime time.Duration `help:"How long, at most 30s (default: the server's 15s)."`
}

// Run implements the command.
func (c *kvGetAndLock) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-and-lock", c.Key, func(o kv.Common) (kv.GetAndLock, error) {
		return kv.GetAndLock{Common: o, Key: []byte(c.Key), LockTime: c.LockTime}, nil
	}, func(r kv.GetResult) view {
		v := viewGet(r)
		v.note = "locked    cas " + hex64(r.CAS) // which unlock wants
		return v
	})
}

type kvUnlock struct {
	keyArg
	casFlag
}

// Run implements the command.
func (c *kvUnlock) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "unlock", c.Key, func(o kv.Common) (kv.Unlock, error) {
		cas, err := c.cas()
		return kv.Unlock{Common: o, Key: []byte(c.Key), CAS: cas}, err
	}, viewText)
}

type kvIncrement struct {
	keyArg
	deltaFlags
	expiryFlag
	levelFlag
	preserveFlag
}

// Run implements the command.
func (c *kvIncrement) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "increment", c.Key, func(o kv.Common) (kv.Increment, error) {
		return kv.Increment{
			Common: o, Key: []byte(c.Key), Delta: c.Delta, Initial: c.Initial, Expiry: c.expiry(),
			Durability:     c.level(),
			PreserveExpiry: c.PreserveExpiry,
		}, nil
	}, viewCounter)
}

type kvDecrement kvIncrement

// Run implements the command.
func (c *kvDecrement) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "decrement", c.Key, func(o kv.Common) (kv.Decrement, error) {
		return kv.Decrement{
			Common: o, Key: []byte(c.Key), Delta: c.Delta, Initial: c.Initial, Expiry: c.expiry(),
			Durability:     c.level(),
			PreserveExpiry: c.PreserveExpiry,
		}, nil
	}, viewCounter)
}

type kvAppend struct {
	keyArg
	valueArg
	casFlag
	durableFlag
	preserveFlag
}

// Run implements the command.
func (c *kvAppend) Run(a *app, k *kvCmd) error {
	return runWrite(a, k, "append", c.Key, c.durableFlag, func(o kv.Common) (kv.Append, error) {
		cas, err := c.cas()
		if err != nil {
			return kv.Append{}, err
		}
		v, err := valueOf(a, c.Value)
		return kv.Append{
			Common: o, Key: []byte(c.Key), Value: v, CAS: cas, Durability: c.level(), PreserveExpiry: c.PreserveExpiry,
		}, err
	})
}

type kvPrepend kvAppend

// Run implements the command.
func (c *kvPrepend) Run(a *app, k *kvCmd) error {
	return runWrite(a, k, "prepend", c.Key, c.durableFlag, func(o kv.Common) (kv.Prepend, error) {
		cas, err := c.cas()
		if err != nil {
			return kv.Prepend{}, err
		}
		v, err := valueOf(a, c.Value)
		return kv.Prepend{
			Common: o, Key: []byte(c.Key), Value: v, CAS: cas, Durability: c.level(), PreserveExpiry: c.PreserveExpiry,
		}, err
	})
}
