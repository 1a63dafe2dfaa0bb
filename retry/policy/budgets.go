package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/retry"
)

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

// bucketDoc is a bucket of tokens by kind.
type bucketDoc struct {
	capacity int
	refill   time.Duration // 0: never
	costs    [len(bucketKinds)]uint64
}

// bucketKinds are the kinds of failures of the client's.
var bucketKinds = [...]retry.Kind{retry.ServerSide, retry.ClientSide, retry.Throttling, retry.Timeout}

func newBucketDoc() *bucketDoc {
	b := &bucketDoc{}
	defaults := DefaultCosts()
	for i, k := range bucketKinds {
		b.costs[i] = uint64(defaults.of(k))
	}
	return b
}

var bucketFields = []field[bucketDoc]{
	{name: "capacity", required: true, read: func(r *reader, b *bucketDoc) error {
		n, err := r.integer(1, math.MaxInt32, "an integer from 1 to 2147483647")
		b.capacity = int(n)
		return err
	}},
	{name: "refill", read: func(r *reader, b *bucketDoc) (err error) {
		b.refill, err = r.ownDuration()
		return err
	}},
	{name: "costs", read: func(r *reader, b *bucketDoc) error { return object(r, costFields(), b) }},
}

func costFields() (list []field[bucketDoc]) {
	for i, k := range bucketKinds {
		list = append(list, field[bucketDoc]{name: k.String(), read: func(r *reader, b *bucketDoc) (err error) {
			b.costs[i], err = r.integer(1, math.MaxInt32, "an integer from 1 to 2147483647")
			return err
		}})
	}
	return list
}

// check finds kinds that no bucket can ever pay for.
func (b *bucketDoc) check(r *reader) error {
	for i, k := range bucketKinds {
		if b.costs[i] > uint64(b.capacity) {
			return &ParseError{
				Path: r.under("costs") + "." + k.String(), Value: strconv.FormatUint(b.costs[i], 10),
				Reason: fmt.Sprintf("lies above the capacity of %d: no such retry could ever be paid for", b.capacity),
			}
		}
	}
	return nil
}

// store is the bucket, full; nil without one.
func (b *bucketDoc) store() *Store {
	if b == nil {
		return nil
	}
	var c Costs
	for i, to := range [...]*int32{&c.Server, &c.Client, &c.Throttling, &c.Timeout} {
		*to = int32(b.costs[i])
	}
	return NewStore(b.capacity, b.refill, c)
}
