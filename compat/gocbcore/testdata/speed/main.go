// Speed does gets and upserts by gocb against a responder, as many at a time as each line of its input says, and prints
// how many there were, how long it took, and the processor's time.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/couchbase/gocb/v2"
)

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
	fmt.Println("ready")
	value := make([]byte, 256)
	put := &gocb.UpsertOptions{Transcoder: gocb.NewRawBinaryTranscoder()}
	c := bucket.DefaultCollection()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var op string
		var callers, ms int
		_, err := fmt.Sscan(in.Text(), &op, &callers, &ms)
		must(err)
		do := func(key string) error { _, err := c.Get(key, nil); return err }
		if op == "upsert" {
			do = func(key string) error { _, err := c.Upsert(key, value, put); return err }
		}
		run(do, callers, time.Duration(ms)*time.Millisecond)
	}
	must(cluster.Close(nil))
}

func run(do func(key string) error, callers int, d time.Duration) {
	var count atomic.Int64
	var all sync.WaitGroup
	began, cpu := time.Now(), processor()
	for w := range callers {
		all.Go(func() {
			n := 0
			for i := w; time.Since(began) < d; i++ {
				must(do(fmt.Sprintf("1-benchmark-%06d", i%1024)))
				n++
			}
			count.Add(int64(n))
		})
	}
	all.Wait()
	fmt.Println(count.Load(), time.Since(began).Nanoseconds(), (processor() - cpu).Nanoseconds())
}

func processor() time.Duration {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
