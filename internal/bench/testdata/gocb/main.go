// Speed does gets and upserts by gocb against a responder, as many at a time as each line of its input says, and prints
// how many there were, how long it took, the processor's time and the allocations, as JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/couchbase/gocb/v2"
)

// load is one line of input.
type load struct {
	Op      string        `json:"op"`
	Callers int           `json:"callers"`
	Time    time.Duration `json:"time_ns"`
}

// done is one line of output.
type done struct {
	Count  int64         `json:"count"`
	Took   time.Duration `json:"took_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	Allocs uint64        `json:"allocs"`
}

func main() {
	cluster, err := gocb.Connect("couchbase://"+os.Args[1], gocb.ClusterOptions{
		Authenticator:  gocb.PasswordAuthenticator{Username: "bench", Password: "bench"},
		SecurityConfig: gocb.SecurityConfig{AllowedSaslMechanisms: []gocb.SaslMechanism{gocb.PlainSaslMechanism}},
		Tracer:         &gocb.NoopTracer{},
		Meter:          &gocb.NoopMeter{},
	})
	must(err)
	bucket := cluster.Bucket("plain")
	must(bucket.WaitUntilReady(20*time.Second, &gocb.WaitUntilReadyOptions{
		ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue},
	}))
	say(done{})
	value := make([]byte, 256)
	put := &gocb.UpsertOptions{Transcoder: gocb.NewRawBinaryTranscoder()}
	c := bucket.DefaultCollection()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var l load
		must(json.Unmarshal(in.Bytes(), &l))
		do := func(key string) error { _, err := c.Get(key, nil); return err }
		if l.Op == "Upsert" {
			do = func(key string) error { _, err := c.Upsert(key, value, put); return err }
		}
		say(run(do, l))
	}
	must(cluster.Close(nil))
}

func run(do func(key string) error, l load) done {
	var count atomic.Int64
	var all sync.WaitGroup
	began, cpu, allocs := time.Now(), processor(), allocations()
	for w := range l.Callers {
		all.Go(func() {
			n := 0
			for i := w; time.Since(began) < l.Time; i++ {
				must(do(fmt.Sprintf("1-benchmark-%06d", i%1024)))
				n++
			}
			count.Add(int64(n))
		})
	}
	all.Wait()
	return done{count.Load(), time.Since(began), processor() - cpu, allocations() - allocs}
}

func processor() time.Duration {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func say(d done) {
	text, err := json.Marshal(d)
	must(err)
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
