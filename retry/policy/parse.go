package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	// Dice are for the jitter; nil is math/rand/v2.
	Dice retry.Dice
}

// Parse reads a policy file: a JSON document with retry or hedging policies by service and operation, and a throttle for
// nodes. The form of gRPC's service config, with methodConfig, method, retryableStatusCodes and nonFatalStatusCodes, is
// read as well; what else that has in it (loadBalancingPolicy, waitForReady, maxRequestMessageBytes and
// maxResponseMessageBytes) is checked and changes nothing.
//
// Parse is strict: unknown and repeated keys, names that two entries claim, both policies in one entry, and values out of
// their range are errors, each a *ParseError with the path and the value. It keeps nothing of data.
func Parse(data []byte, o ParseOptions) (*Config, error) {
	if len(data) > MaxSize {
		return nil, &ParseError{Value: strconv.Itoa(len(data)) + " bytes", Reason: fmt.Sprintf("is longer than %d bytes", MaxSize)}
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
		return nil, &ParseError{Path: "loadBalancingPolicy", Value: d.balancing, Reason: "is unknown without methodConfig"}
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
	path string
}

type retryDoc struct {
	maxAttempts  uint64
	initial, max time.Duration
	multiplier   float64
	failures     failures
	jitter       jitter
	soft, hard   time.Duration
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

// services are those that a name may be for.
var services = [...]retry.Service{retry.KV, retry.Query, retry.Search, retry.Analytics, retry.Views, retry.Management}

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
	{name: "retryThrottling", read: func(r *reader, d *document) error { return object(r, throttleFields, &d.throttle) }},
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
		e.retry = &retryDoc{jitter: fullJitter}
		if err := object(r, retryFields, e.retry); err != nil {
			return err
		}
		if p := e.retry; p.hard > 0 && p.soft > p.hard {
			return &ParseError{Path: r.under("softLimit"), Value: written(p.soft), Reason: "lies above the hardLimit of " + written(p.hard)}
		}
		return nil
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

var retryFields = []field[retryDoc]{
	{name: "maxAttempts", required: true, read: func(r *reader, p *retryDoc) (err error) {
		p.maxAttempts, err = readAttempts(r)
		return err
	}},
	{name: "initialBackoff", required: true, read: func(r *reader, p *retryDoc) (err error) {
		p.initial, err = r.duration(1)
		return err
	}},
	{name: "maxBackoff", required: true, read: func(r *reader, p *retryDoc) (err error) {
		p.max, err = r.duration(1)
		return err
	}},
	{name: "backoffMultiplier", required: true, read: func(r *reader, p *retryDoc) (err error) {
		p.multiplier, _, err = r.positive()
		return err
	}},
	{name: "retryableReasons", grpc: "retryableStatusCodes", required: true, read: func(r *reader, p *retryDoc) error {
		if err := readFailures(r, &p.failures); err != nil {
			return err
		}
		if p.failures.reasons == 0 && len(p.failures.codes) == 0 {
			return r.fault("[]", "must not be empty")
		}
		return nil
	}},
	{name: "jitter", read: readJitter},
	{name: "softLimit", read: func(r *reader, p *retryDoc) (err error) {
		p.soft, err = r.duration(1)
		return err
	}},
	{name: "hardLimit", read: func(r *reader, p *retryDoc) (err error) {
		p.hard, err = r.duration(1)
		return err
	}},
	{name: "pinned", read: func(r *reader, p *retryDoc) (err error) {
		p.pinned, err = r.boolean()
		return err
	}},
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

var throttleFields = []field[throttleDoc]{
	{name: "maxTokens", required: true, read: func(r *reader, t *throttleDoc) error {
		n, err := r.integer(1, 1000, "an integer from 1 to 1000")
		t.maxTokens = int(n)
		return err
	}},
	{name: "tokenRatio", required: true, read: func(r *reader, t *throttleDoc) error {
		ratio, raw, err := r.positive()
		if err != nil {
			return err
		}
		if t.ratioMilli = thousandths(ratio); t.ratioMilli == 0 {
			return r.fault(raw, "must be above 0 with three decimals, the others being dropped")
		}
		return nil
	}},
}

// maxRatio is a ratio at which one success fills every throttle.
const maxRatio = 1000

// thousandths cuts f after three decimals. It goes by the digits: 0.57 times 1000 is less than 570 in floating point.
func thousandths(f float64) int {
	if f >= maxRatio {
		return maxRatio * 1000
	}
	whole, part, _ := strings.Cut(strconv.FormatFloat(f, 'f', -1, 64), ".")
	n, err := strconv.Atoi(whole + (part + "000")[:3])
	if err != nil {
		return 0
	}
	return n
}

func readAttempts(r *reader) (uint64, error) {
	return r.integer(2, math.MaxUint64, "an integer above 1")
}

var nameFields = []field[nameDoc]{
	{name: "service", read: func(r *reader, n *nameDoc) error {
		text, raw, err := r.text("the name of a service")
		if err != nil {
			return err
		}
		if n.service = retry.Service(text); !slices.Contains(services[:], n.service) {
			return r.fault(raw, fmt.Sprintf("is no service; there are %v", services))
		}
		return nil
	}},
	{name: "operation", grpc: "method", read: func(r *reader, n *nameDoc) error {
		text, raw, err := r.text("the name of an operation")
		if err == nil && text == "" {
			return r.fault(raw, "must not be empty")
		}
		n.operation = text
		return err
	}},
}

func (n name) String() string {
	switch {
	case n.service == "":
		return "{}"
	case n.operation == "":
		return fmt.Sprintf(`{"service":%q}`, n.service)
	}
	return fmt.Sprintf(`{"service":%q,"operation":%q}`, n.service, n.operation)
}

func readNames(r *reader, e *entryDoc) error {
	err := r.array(func(int) error {
		n := nameDoc{path: r.at()}
		if err := object(r, nameFields, &n); err != nil {
			return err
		}
		if n.service == "" && n.operation != "" {
			return r.fault(fmt.Sprintf(`{"operation":%q}`, n.operation), "names an operation without its service")
		}
		e.names = append(e.names, n)
		return nil
	})
	if err == nil && len(e.names) == 0 {
		return r.fault("[]", "must not be empty; {} is everything")
	}
	return err
}

// check compares what stands in different places of the document.
func (d *document) check(o ParseOptions) error {
	claimed := make(map[name]string)
	for i := range d.entries {
		e := &d.entries[i]
		for _, n := range e.names {
			if first, twice := claimed[n.name]; twice {
				return &ParseError{Path: n.path, Value: shown(n.String()), Reason: "is there twice, first at " + first}
			}
			claimed[n.name] = n.path
		}
		var codes []code
		switch {
		case e.retry != nil:
			codes = e.retry.failures.codes
		case e.hedge != nil:
			codes = e.hedge.failures.codes
		}
		if err := e.checkCodes(codes, o); err != nil {
			return err
		}
	}
	return nil
}
