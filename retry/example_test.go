package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// impatient waits for everything but a lock.
type impatient struct{ retry.BestEffort }

func (s impatient) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why == retry.KVLocked {
		return retry.Stop()
	}
	return s.BestEffort.RetryAfter(ctx, r, why)
}

// A strategy of one's own embeds BestEffort, decides the cases that matter to it, and leaves the others to BestEffort.
func ExampleStrategy() {
	s := impatient{retry.BestEffort{Backoff: retry.Constant(5 * time.Millisecond)}}
	for _, why := range []retry.Reason{retry.KVTemporaryFailure, retry.KVLocked} {
		delay, again := s.RetryAfter(context.Background(), &retry.Request{}, why).Delay()
		fmt.Println(why, again, delay)
	}
	// Output:
	// KV_TEMPORARY_FAILURE true 5ms
	// KV_LOCKED false 0s
}

// Do repeats a program's own work: here a job that is polled until it is done, and whose service is busy at first.
func ExampleDo() {
	states := []string{"busy", "running", "running", "done"}
	poll := func(context.Context) (string, error) {
		state := states[0]
		if states = states[1:]; state == "busy" {
			return "", errors.New("the service is busy")
		}
		return state, nil
	}
	loop := retry.Loop{
		Strategy: retry.BestEffort{Backoff: retry.Constant(time.Millisecond)}, MaxAttempts: 10,
		MaxElapsed: time.Minute,
	}
	state, err := retry.Do(context.Background(), loop, func(state string, err error) retry.Directive {
		switch {
		case err != nil:
			return retry.Again(retry.Throttling)
		case state != "done":
			return retry.Again(retry.ServerSide)
		}
		return retry.Succeed()
	}, poll)
	fmt.Println(state, err, len(states))
	// Output: done <nil> 0
}

type robot struct{}

// politeToRobots gives up early for requests of robots.
type politeToRobots struct{ retry.BestEffort }

func (p politeToRobots) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if r.Context.Value(robot{}) != nil && !why.Unseen() {
		return retry.Stop()
	}
	return p.BestEffort.RetryAfter(ctx, r, why)
}

// A strategy sees what the caller's context carries.
func ExampleStrategy_userData() {
	for _, ctx := range []context.Context{context.Background(), context.WithValue(context.Background(), robot{},
		true)} {
		_, again := politeToRobots{}.RetryAfter(ctx, &retry.Request{Context: ctx, Idempotent: true},
			retry.KVTemporaryFailure).Delay()
		fmt.Println(again)
	}
	// Output:
	// true
	// false
}

// The error of an operation that is given up may be another one than the attempt's.
func ExampleStopWith() {
	errBusy := errors.New("come back tomorrow")
	s := retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
		if r.Counted < 3 {
			return retry.After(time.Duration(r.Counted) * time.Second)
		}
		return retry.StopWith(func(err error) error { return fmt.Errorf("%w (%w)", errBusy, err) })
	})
	for n := range 4 {
		fmt.Println(s.RetryAfter(context.Background(), &retry.Request{Counted: n}, retry.KVTemporaryFailure).Delay())
	}
	// Output:
	// 0s true
	// 1s true
	// 2s true
	// 0s false
}

// A Backoff is useful without an operation too, to wait for something between attempts.
func ExampleClamp() {
	wait := retry.Clamp(retry.Exponential(10*time.Millisecond, time.Second, 3), 20*time.Millisecond,
		200*time.Millisecond)
	for step := range 5 {
		fmt.Print(wait(step, 0), " ")
	}
	fmt.Println()
	// Output: 20ms 30ms 90ms 200ms 200ms
}
