package sim

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names: half of the runs find nodes by a DNS SRV record too, whose server lies. It is asked when the client is
// opened, and when no node can be reached.

const srvName = "_couchbase._tcp.db.example.com"

// emptyAddr is an address at which there is no node.
const emptyAddr = "10.9.9.9"

// lie is one kind of answer.
type lie struct {
	name   string
	answer func(ctx context.Context, w *world, good []*net.SRV) ([]*net.SRV, error)
}

func lies() []lie {
	failing := func(name string, err *net.DNSError) lie {
		return lie{name, func(context.Context, *world, []*net.SRV) ([]*net.SRV, error) { return nil, err }}
	}
	return []lie{
		failing("47a no SRV record", &net.DNSError{Err: "no such host", Name: srvName, IsNotFound: true}),
		{"47b no answer about the SRV record", func(ctx context.Context, _ *world, _ []*net.SRV) ([]*net.SRV, error) {
			<-ctx.Done()
			return nil, &net.DNSError{Err: "i/o timeout", Name: srvName, IsTimeout: true}
		}},
		{"47c SRV record with other nodes", func(_ context.Context, _ *world, good []*net.SRV) ([]*net.SRV, error) {
			wrong := &net.SRV{Target: emptyAddr + ".", Port: good[0].Port}
			return slices.Concat([]*net.SRV{wrong}, good[:1]), nil
		}},
		{"47c SRV record with nothing that is a node", func(_ context.Context, _ *world, good []*net.SRV) ([]*net.SRV,
			error,
		) {
			return []*net.SRV{{Target: emptyAddr + ".", Port: good[0].Port}, {Target: ".", Port: 0}}, nil
		}},
		failing("47d alias loop", &net.DNSError{Err: "too many CNAMEs", Name: srvName}),
		{"47 the SRV lookup panics", func(context.Context, *world, []*net.SRV) ([]*net.SRV, error) {
			return nil, &net.DNSError{Err: crash(nil)}
		}},
	}
}

// liar is the client's resolver.
type liar struct{ w *world }

// LookupSRV implements core.Resolver.
func (l liar) LookupSRV(ctx context.Context, _, _, _ string) (string, []*net.SRV, error) {
	w := l.w
	at := uint64(time.Now().UnixNano())
	sleep(ctx, w.d.between(time.Microsecond, time.Second, text("resolver"), at))
	port, _ := strconv.ParseUint(w.kvPort(), 10, 16) // it is a port
	var good []*net.SRV
	for _, a := range w.addresses() {
		good = append(good, &net.SRV{Target: host(a) + ".", Port: uint16(port)})
	}
	table := lies()
	n := w.d.below(len(table)+2, text("lie"), at)
	records, err := good, error(nil)
	if n < len(table) {
		w.fired(table[n].name, 1)
		records, err = table[n].answer(ctx, w, good)
	}
	for _, r := range records {
		w.name(strings.TrimSuffix(r.Target, "."))
	}
	return srvName, records, err
}
