package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// MaxSize is the size in bytes up to which a policy file is read.
const MaxSize = 1 << 20

// defaultCap is how many attempts a policy file may ask for unless the client says otherwise.
const defaultCap = 5

// ParseOptions are the client's side of a policy file.
type ParseOptions struct {
	// MaxAttemptsCap is the most attempts that an operation may have, whatever the file says; 0 is 5.
	MaxAttemptsCap int
	// Code gives the reason of a service's own number: a KV status, an HTTP status or an error code. Numbers without a
	// reason are refused, since a policy narrows what is retried and cannot widen it. A nil Code knows none.
	Code func(service retry.Service, code uint32) (retry.Reason, bool)
	// Operations are those of a service: a file that names another one is refused, and so is a hedging policy for what
	// is never hedged. A nil Operations knows them all.
	Operations func(service retry.Service) []Operation
	// JitterSource is for the jitter; nil is math/rand/v2, or what Config.WithJitterSource gives.
	JitterSource retry.JitterSource
	// Elapsed is the time that the token bucket fills by, since Parse; nil is the clock's. It is for tools that
	// foretell what a client does.
	Elapsed func() time.Duration
}

// Parse reads a policy file: a JSON document with retry or hedging policies by service and operation, and a throttle
// for nodes. The form of gRPC's service config, with methodConfig, method, retryableStatusCodes and
// nonFatalStatusCodes, is read as well; what else that has in it (loadBalancingPolicy, waitForReady,
// maxRequestMessageBytes and maxResponseMessageBytes) is checked and changes nothing.
//
// Parse is strict: unknown and repeated keys, names that two entries claim, both policies in one entry, and values out
// of their range are errors, each a *ParseError with the path and the value. It keeps nothing of data.
func Parse(data []byte, o ParseOptions) (*Config, error) {
	if len(data) > MaxSize {
		return nil, &ParseError{
			Value: strconv.Itoa(len(data)) + " bytes", Reason: fmt.Sprintf("is longer than %d bytes", MaxSize),
		}
	}
	if o.MaxAttemptsCap <= 0 {
		o.MaxAttemptsCap = defaultCap
	}
	var d document
	r := newReader(data)
	if err := object(r, documentFields, &d); err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if d.balancing != "" && !d.grpc {
		return nil, &ParseError{
			Path: "loadBalancingPolicy", Value: d.balancing, Reason: "is unknown without methodConfig",
		}
	}
	if err := d.check(o); err != nil {
		return nil, err
	}
	return newConfig(&d, o), nil
}

// document is a policy file as it is written.
type document struct {
	entries   []entryDoc
	grpc      bool   // the entries were called methodConfig
	balancing string // gRPC's loadBalancingPolicy
	throttle  throttleDoc
	bucket    *bucketDoc
}

type entryDoc struct {
	names   []nameDoc
	timeout time.Duration
	retry   *retryDoc
	hedge   *hedgeDoc
}

// name is what an entry is for. An empty operation is every one of the service, an empty service everything.
type name struct {
	service   retry.Service
	operation string
}

type nameDoc struct {
	name
	path, at string // of the name, and of its operation
}

type retryDoc struct {
	maxAttempts  uint64
	initial, max time.Duration
	multiplier   float64
	delays       []time.Duration // instead of the three above; nil: those
	failures     failures
	jitter       *jitter // nil: see spread
	soft, hard   time.Duration
	fit          Fit
	pinned       bool
}

type hedgeDoc struct {
	maxAttempts uint64
	delay       time.Duration
	failures    failures
	pinned      bool
}

type throttleDoc struct {
	maxTokens  int // 0 is no throttle
	ratioMilli int
}

var documentFields = []field[document]{
	{name: "operationConfig", grpc: "methodConfig", read: func(r *reader, d *document) error {
		fields := entryFields
		if d.grpc = r.grpcForm(); d.grpc {
			fields = slices.Concat(entryFields, grpcFields)
		}
		return r.array(func(int) error {
			var e entryDoc
			err := object(r, fields, &e)
			d.entries = append(d.entries, e)
			return err
		})
	}},
	{name: "retryThrottling", read: func(r *reader, d *document) error {
		return object(r, throttleFields, &d.throttle)
	}},
	{name: "tokenBucket", read: func(r *reader, d *document) error {
		d.bucket = newBucketDoc()
		if err := object(r, bucketFields, d.bucket); err != nil {
			return err
		}
		return d.bucket.check(r)
	}},
	{name: "loadBalancingPolicy", read: func(r *reader, d *document) (err error) {
		_, d.balancing, err = r.text("a string")
		return err
	}},
}

var entryFields = []field[entryDoc]{
	{name: "name", required: true, read: readNames},
	{name: "timeout", read: func(r *reader, e *entryDoc) (err error) {
		e.timeout, err = r.duration(1)
		return err
	}},
	{name: "retryPolicy", read: func(r *reader, e *entryDoc) error {
		if e.hedge != nil {
			return r.refuse(oneOfTwo)
		}
		e.retry = new(retryDoc)
		if err := object(r, retryFields, e.retry); err != nil {
			return err
		}
		return e.retry.check(r)
	}},
	{name: "hedgingPolicy", read: func(r *reader, e *entryDoc) error {
		if e.retry != nil {
			return r.refuse(oneOfTwo)
		}
		e.hedge = new(hedgeDoc)
		return object(r, hedgeFields, e.hedge)
	}},
}

// written is d as a policy file has it.
func written(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }

const oneOfTwo = "an entry has a retryPolicy or a hedgingPolicy, not both"

// grpcFields are the fields of gRPC's entries that mean nothing here.
var grpcFields = []field[entryDoc]{
	{name: "waitForReady", read: func(r *reader, _ *entryDoc) error {
		_, err := r.boolean()
		return err
	}},
	{name: "maxRequestMessageBytes", read: readSize},
	{name: "maxResponseMessageBytes", read: readSize},
}

func readSize(r *reader, _ *entryDoc) error {
	_, err := r.integer(0, math.MaxUint64, "a whole number")
	return err
}

var hedgeFields = []field[hedgeDoc]{
	{name: "maxAttempts", required: true, read: func(r *reader, p *hedgeDoc) (err error) {
		p.maxAttempts, err = readAttempts(r)
		return err
	}},
	{name: "hedgingDelay", read: func(r *reader, p *hedgeDoc) (err error) {
		p.delay, err = r.duration(0)
		return err
	}},
	{name: "nonFatalReasons", grpc: "nonFatalStatusCodes", read: func(r *reader, p *hedgeDoc) error {
		return readFailures(r, &p.failures)
	}},
	{name: "pinned", read: func(r *reader, p *hedgeDoc) (err error) {
		p.pinned, err = r.boolean()
		return err
	}},
}

func readAttempts(r *reader) (uint64, error) {
	return r.integer(2, math.MaxUint64, "an integer above 1")
}

// check compares what stands in different places of the document.
func (d *document) check(o ParseOptions) error {
	claimed := make(map[name]string)
	for i := range d.entries {
		e := &d.entries[i]
		if err := e.checkNames(o, claimed); err != nil {
			return err
		}
		var err error
		switch {
		case e.retry != nil:
			err = e.checkCodes(&e.retry.failures, o)
		case e.hedge != nil:
			err = e.checkCodes(&e.hedge.failures, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
