package management

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
)

// The types of buckets, as configurations name them.
const (
	Couchbase = "membase"
	Ephemeral = "ephemeral"
	Memcached = "memcached"
)

// The storage backends of persistent buckets.
const (
	Couchstore = "couchstore"
	Magma      = "magma"
)

// BucketSettings are a bucket's settings under the names that the service reads and writes them by. Numbers without a
// unit in their name are counts; MaxTTL and HistorySeconds are seconds.
type BucketSettings struct {
	Name, Type         string
	QuotaMB            int64
	Replicas           int
	ReplicaIndex       bool
	Flush              bool
	EvictionPolicy     string
	MaxTTL             int64
	CompressionMode    string
	ConflictResolution string
	DurabilityMinLevel string
	Backend            string // empty unless the bucket is persistent
	Threads            int
	Rank               int
	QuotaPercentage    int // of storage, for magma
	HistoryDefault     bool
	HistoryBytes       uint64
	HistorySeconds     uint64
	CrossVersioning    bool
	PruningHours       int
	DriftAheadMS       int64
	DriftBehindMS      int64
	AutoCompaction     bool
	PurgeInterval      float64 // days
}

const (
	defaultQuotaMB  = 100
	maxReplicas     = 3
	maxNameLength   = 100
	defaultDriftMS  = 5000
	defaultPruning  = 720
	magmaMinQuotaMB = 1024 // with 1024 vbuckets, which is what magma had before 8.0
	magmaVBuckets   = 128
	maxVBuckets     = 1024
	minHistoryBytes = int64(2 << 30)
)

// DefaultSettings are those of a new bucket of a type, empty for the usual one, and of a storage backend, empty for the
// version's own.
func DefaultSettings(name, kind, backend string, v Version) BucketSettings {
	set := BucketSettings{
		Name: name, Type: kind, QuotaMB: defaultQuotaMB, Replicas: 1, CompressionMode: "passive",
		ConflictResolution: "seqno", DurabilityMinLevel: "none", Threads: 3, QuotaPercentage: 50, HistoryDefault: true,
		PruningHours: defaultPruning, DriftAheadMS: defaultDriftMS, DriftBehindMS: defaultDriftMS, PurgeInterval: 3,
	}
	switch kind {
	case Ephemeral:
		set.EvictionPolicy = "noEviction"
	case Memcached:
		set.EvictionPolicy, set.CompressionMode, set.Replicas = "valueOnly", "off", 0
	default:
		set.Type, set.EvictionPolicy, set.ReplicaIndex, set.Backend = Couchbase, "valueOnly", true, Couchstore
		if backend == Magma || backend == "" && v.At(8, 0) {
			set.Backend, set.EvictionPolicy, set.ReplicaIndex = Magma, "fullEviction", false
		}
	}
	return set
}

// bucketForm is a form with a bucket's settings.
type bucketForm struct {
	url.Values
	set      *BucketSettings
	version  Version
	isNew    bool
	vbuckets int64 // asked for; 0 for none
	errs     fields
}

// take looks at a field that is there.
func (f *bucketForm) take(name string, use func(text string)) {
	if vs, ok := f.Values[name]; ok && len(vs) > 0 {
		use(vs[0])
	}
}

func (f *bucketForm) fail(name, format string, args ...any) {
	f.errs[name] = fmt.Sprintf(format, args...)
}

// count takes a number of a field between limits.
func (f *bucketForm) count(name string, low, high int64, into func(int64), format string, args ...any) {
	f.take(name, func(text string) {
		n, fault := parseNumber(text, low, high)
		if fault != numberFine {
			f.fail(name, format, args...)
			return
		}
		into(n)
	})
}

// choice takes a text of a field that must be one of some; key is the name that the error has.
func (f *bucketForm) choice(name, key string, into *string, wrong string, among ...string) {
	f.take(name, func(text string) {
		for _, one := range among {
			if text == one {
				*into = text
				return
			}
		}
		f.fail(key, "%s", wrong)
	})
}

// binary takes a 0 or 1 of a field.
func (f *bucketForm) binary(name string, into *bool, wrong string) {
	f.take(name, func(text string) {
		if text != "0" && text != "1" {
			f.fail(name, "%s", wrong)
			return
		}
		*into = text == "1"
	})
}

func (f *bucketForm) flag(name string, into *bool) {
	f.take(name, func(text string) {
		if text != "true" && text != "false" {
			f.fail(name, "%s must be true or false", name)
			return
		}
		*into = text == "true"
	})
}

// parseBucket reads the settings of a form. old is nil for a bucket to be made, whose name is in the form; dataNodes is
// how many nodes could hold it.
func parseBucket(form url.Values, old *BucketSettings, c *Cluster, dataNodes int) (*bucketForm, fields) {
	f := &bucketForm{Values: form, version: c.Version, isNew: old == nil, errs: fields{}}
	if f.isNew {
		f.begin(c)
		if f.errs["bucketType"] != "" {
			return f, f.errs
		}
	} else {
		set := *old
		f.set = &set
		f.backendOf(old)
	}
	f.quota()
	f.binary("flushEnabled", &f.set.Flush, "flushEnabled can only be 1 or 0")
	if f.set.Type != Memcached {
		f.replicas()
		f.policies()
		f.ages()
		f.history()
		f.conflict()
		f.durability(dataNodes)
	}
	f.smallest()
	return f, f.errs
}

// begin finds the type of a new bucket and its defaults.
func (f *bucketForm) begin(c *Cluster) {
	kind := ""
	switch text := f.Get("bucketType"); text {
	case "", "membase", "couchbase":
	case Ephemeral:
		kind = Ephemeral
	case Memcached:
		if kind = Memcached; f.version.At(8, 0) {
			f.fail("bucketType", "memcached buckets are no longer supported")
		}
	default:
		f.fail("bucketType", "invalid bucket type")
	}
	backend := f.Get("storageBackend")
	set := DefaultSettings(f.Get("name"), kind, backend, f.version)
	f.set = &set
	if _, given := f.Values["storageBackend"]; given && kind == "" && backend != Couchstore && backend != Magma {
		f.fail("storage_mode", "storage backend must be couchstore or magma")
	}
	f.name(c)
	f.vbucketCount()
}

func (f *bucketForm) name(c *Cluster) {
	name := f.set.Name
	_, given := f.Values["name"]
	switch {
	case !given:
		f.fail("name", "Bucket name needs to be specified")
	case name == "":
		f.fail("name", "Bucket name cannot be empty")
	case len(name) > maxNameLength:
		f.fail("name", "Bucket name cannot exceed %d characters", maxNameLength)
	case name[0] == '.':
		f.fail("name", "Bucket name cannot start with dot.")
	case name == "_replicator.couch" || name == "_users.couch":
		f.fail("name", "This name is reserved for the internal use.")
	case strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) && r != '.' }):
		f.fail("name", "Bucket name can only contain characters in range A-Z, a-z, 0-9 as well as underscore, period, "+
			"dash & percent. Consult the documentation.")
	default:
		for i := range c.Buckets {
			if strings.EqualFold(c.Buckets[i].Name, name) {
				f.fail("name", "Bucket with given name already exists")
			}
		}
	}
}

// nameRune reports whether a name of a bucket, scope or collection may have the character.
func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-%", r)
}

func (f *bucketForm) vbucketCount() {
	f.take("numVBuckets", func(text string) {
		n, fault := parseNumber(text, 1, maxVBuckets)
		fits := n == maxVBuckets || n == magmaVBuckets && f.set.Backend == Magma
		if fault != numberFine || !fits {
			f.fail("numVBuckets", "Number of vbuckets must be %d or %d (magma) or %d (couchstore)", magmaVBuckets,
				maxVBuckets, maxVBuckets)
			return
		}
		f.vbuckets = n
	})
}

// backendOf lets a persistent bucket change its storage backend.
func (f *bucketForm) backendOf(old *BucketSettings) {
	if old.Backend == "" {
		return
	}
	f.choice("storageBackend", "storage_mode", &f.set.Backend, "storage backend must be couchstore or magma",
		Couchstore, Magma)
	if f.set.Backend != old.Backend && !f.version.At(7, 6) {
		f.fail("storageBackend", "Storage mode migration is not allowed until the entire cluster is upgraded to 7.6")
	}
}

func (f *bucketForm) quota() {
	name := "ramQuota"
	if _, given := f.Values[name]; !given {
		name = "ramQuotaMB"
	}
	text, given := f.Get(name), len(f.Values[name]) > 0
	if !given && !f.isNew {
		return
	}
	n, fault := parseNumber(text, 0, math.MaxInt32)
	switch fault {
	case numberInvalid, numberLarge:
		f.fail("ramQuota", "The RAM Quota must be specified and must be a positive integer.")
	case numberSmall:
		f.fail("ramQuota", "The RAM Quota cannot be negative.")
	default:
		if f.set.QuotaMB = n; n < defaultQuotaMB {
			f.fail("ramQuota", "RAM quota cannot be less than %d %s", defaultQuotaMB, f.megabytes())
		}
	}
}

// megabytes is how the version spells the unit of quotas.
func (f *bucketForm) megabytes() string {
	if f.version.At(7, 2) {
		return "MiB"
	}
	return "MB"
}

// smallest is the least quota of magma, if nothing else is wrong about the quota.
func (f *bucketForm) smallest() {
	if f.set.Backend != Magma || f.errs["ramQuota"] != "" {
		return
	}
	least := int64(magmaMinQuotaMB)
	if f.version.At(8, 0) && f.vbuckets != maxVBuckets {
		least = defaultQuotaMB
	}
	if f.set.QuotaMB < least {
		f.fail("ramQuota", "Ram quota for magma must be at least %d %s", least, f.megabytes())
	}
}

func (f *bucketForm) replicas() {
	f.take("replicaNumber", func(text string) {
		n, fault := parseNumber(text, 0, maxReplicas)
		switch fault {
		case numberInvalid:
			f.fail("replicaNumber", "The replica number must be specified and must be a non-negative integer.")
		case numberSmall:
			f.fail("replicaNumber", "Replica number must be equal to or greater than 0")
		case numberLarge:
			f.fail("replicaNumber", "Replica number larger than %d is not supported.", maxReplicas)
		default:
			if f.set.Replicas = int(n); n == 0 && f.isNew {
				f.set.ReplicaIndex = false
			}
		}
	})
	if f.isNew && f.set.Type == Ephemeral {
		f.take("replicaIndex", func(string) {
			f.fail("replicaIndex", "replicaIndex not supported for ephemeral buckets")
		})
	} else if f.isNew {
		f.binary("replicaIndex", &f.set.ReplicaIndex, "replicaIndex can only be 1 or 0")
	}
}

func (f *bucketForm) policies() {
	if f.set.Type == Ephemeral {
		f.choice("evictionPolicy", "evictionPolicy", &f.set.EvictionPolicy, "Eviction policy must be either "+
			"'noEviction' or 'nruEviction' for ephemeral buckets", "noEviction", "nruEviction")
	} else {
		f.choice("evictionPolicy", "evictionPolicy", &f.set.EvictionPolicy,
			"Eviction policy must be either 'valueOnly' or 'fullEviction' for couchbase buckets", "valueOnly",
			"fullEviction")
	}
	f.choice("compressionMode", "compressionMode", &f.set.CompressionMode,
		"compressionMode can be set to 'off', 'passive' or 'active'", "off", "passive", "active")
	f.take("threadsNumber", func(text string) {
		n, fault := parseNumber(text, 2, 8)
		switch fault {
		case numberInvalid:
			f.fail("threadsNumber", "The number of threads must be an integer between 2 and 8, inclusive")
		case numberSmall:
			f.fail("threadsNumber", "The number of threads can't be less than 2")
		case numberLarge:
			f.fail("threadsNumber", "The number of threads can't be greater than 8")
		default:
			f.set.Threads = int(n)
		}
	})
	f.count("rank", 0, 1000, func(n int64) { f.set.Rank = int(n) },
		"Rank must be in the range 0-1000. Got '%q' instead.", f.Get("rank"))
	f.flag("enableCrossClusterVersioning", &f.set.CrossVersioning)
	f.count("versionPruningWindowHrs", 24, math.MaxInt32, func(n int64) { f.set.PruningHours = int(n) },
		"Must be an integer greater than or equal to 24")
}

func (f *bucketForm) ages() {
	f.count("maxTTL", 0, math.MaxInt32, func(n int64) { f.set.MaxTTL = n },
		"Max TTL must be an integer between 0 and %d", math.MaxInt32)
	f.take("purgeInterval", func(text string) {
		days, err := strconv.ParseFloat(text, 64)
		if err != nil || days < 0.04 || days > 60 {
			f.fail("purgeInterval", "metadata purge interval must be an integer between 0.04 and 60")
			return
		}
		f.set.PurgeInterval = days
	})
	f.take("autoCompactionDefined", func(text string) { f.set.AutoCompaction = text == "true" })
}

func (f *bucketForm) history() {
	if f.set.Backend != Magma {
		for _, name := range []string{
			"historyRetentionSeconds", "historyRetentionBytes",
			"historyRetentionCollectionDefault",
		} {
			f.take(name, func(string) { f.fail(name, "History Retention can only used with Magma") })
		}
		f.take("storageQuotaPercentage", func(string) {
			f.fail("storageQuotaPercentage", "Storage Quota Percentage is only used with Magma")
		})
		return
	}
	f.count("historyRetentionSeconds", 0, math.MaxInt64, func(n int64) { f.set.HistorySeconds = uint64(n) },
		"The value of historyRetentionSeconds (%s) must be a non-negative integer", f.Get("historyRetentionSeconds"))
	f.take("historyRetentionBytes", func(text string) {
		n, fault := parseNumber(text, minHistoryBytes, math.MaxInt64)
		switch {
		case text == "0":
			f.set.HistoryBytes = 0
		case fault == numberInvalid:
			f.fail("historyRetentionBytes", "The value of historyRetentionBytes (%s) must be a non-negative integer",
				text)
		case fault != numberFine:
			f.fail("historyRetentionBytes", "The value of historyRetentionBytes (%s) must be in the range %d to %d "+
				"inclusive", text, minHistoryBytes, uint64(math.MaxUint64))
		default:
			f.set.HistoryBytes = uint64(n)
		}
	})
	f.flag("historyRetentionCollectionDefault", &f.set.HistoryDefault)
	f.count("storageQuotaPercentage", 1, 85, func(n int64) { f.set.QuotaPercentage = int(n) },
		"Storage Quota Percentage must be between 1 and 85, inclusive")
}

func (f *bucketForm) conflict() {
	if !f.isNew {
		f.take("conflictResolutionType", func(string) {
			f.fail("conflictResolutionType", "Conflict resolution type not allowed in update bucket")
		})
	} else {
		f.choice("conflictResolutionType", "conflictResolutionType", &f.set.ConflictResolution,
			"Conflict resolution type must be 'seqno' or 'lww' or 'custom'", "seqno", "lww", "custom")
	}
	if f.isNew && f.set.ConflictResolution == "custom" {
		f.fail("conflictResolutionType", "Conflict resolution type 'custom' is supported only with developer preview "+
			"enabled")
	}
	f.count("driftAheadThresholdMs", 100, math.MaxInt64, func(n int64) { f.set.DriftAheadMS = n },
		"The drift ahead threshold can't be less than 100ms")
	f.count("driftBehindThresholdMs", 100, math.MaxInt64, func(n int64) { f.set.DriftBehindMS = n },
		"The drift behind threshold can't be less than 100ms")
}

func (f *bucketForm) durability(dataNodes int) {
	old, replicas := f.set.DurabilityMinLevel, f.set.Replicas
	const key = "durability_min_level"
	if f.set.Type == Ephemeral {
		f.choice("durabilityMinLevel", key, &f.set.DurabilityMinLevel,
			"Durability minimum level must be either 'none' or 'majority' for ephemeral buckets", "none", "majority")
	} else {
		f.choice("durabilityMinLevel", key, &f.set.DurabilityMinLevel, "Durability minimum level must be one of "+
			"'none', 'majority', 'majorityAndPersistActive', or 'persistToMajority'", "none", "majority",
			"majorityAndPersistActive", "persistToMajority")
	}
	_, asked := f.Values["replicaNumber"]
	switch {
	case f.set.DurabilityMinLevel == "none" || replicas == 0, f.set.DurabilityMinLevel == old && !asked && !f.isNew:
	case replicas == maxReplicas:
		f.fail(key, "Durability minimum level cannot be specified with 3 replicas")
	case dataNodes == 1:
		f.fail(key, "You do not have enough data servers to support this durability level")
	}
}
