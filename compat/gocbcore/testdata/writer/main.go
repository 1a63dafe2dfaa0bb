// Writer writes documents and counters by gocb until its input ends, and prints what has become of each write.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/couchbase/gocb/v2"
)

func main() {
	cluster, err := gocb.Connect(os.Args[1], gocb.ClusterOptions{
		Authenticator:  gocb.PasswordAuthenticator{Username: "Administrator", Password: "password"},
		TimeoutsConfig: gocb.TimeoutsConfig{KVTimeout: 2 * time.Second},
	})
	if err == nil {
		err = cluster.Bucket("default").WaitUntilReady(10*time.Second, nil)
	}
	if err != nil {
		fmt.Println("not ready", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() { work(cluster.Bucket("default").DefaultCollection(), w, stop) })
	}
	all.Wait()
	if err := cluster.Close(nil); err != nil {
		fmt.Println("not closed", err)
	}
}

func work(c *gocb.Collection, w int, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		key := fmt.Sprintf("d-%d-%d", w, i)
		_, err := c.Insert(key, i, nil)
		say(key, err)
		key = fmt.Sprintf("c-%d-%d", w, i%10)
		_, err = c.Binary().Increment(key, &gocb.IncrementOptions{Initial: 1, Delta: 1})
		say(key, err)
	}
}

// say prints the key, what is known of the write, and the error.
func say(key string, err error) {
	how := "unknown"
	switch {
	case err == nil:
		how = "done"
	case errors.Is(err, gocb.ErrUnambiguousTimeout):
		how = "not-done"
	case errors.Is(err, gocb.ErrDocumentExists):
		how = "twice"
	}
	fmt.Printf("%s %s %v\n", key, how, err)
}
