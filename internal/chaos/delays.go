package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	delaysEvery = 10 * time.Millisecond
	delaysKeeps = 1 << 10 // samples
	statTick    = 10 * time.Millisecond
	procRoot    = "/proc"
)

// delays knows for how long the threads of this process waited for a processor, as Linux counts it, and for how long
// the machine's own processors were taken away from it. It adds all of that up: see doc.go.
type delays struct {
	root string        // procRoot, unless under test
	over chan struct{} // is closed when no sample comes again

	// of the goroutine that takes samples
	tasks   *os.File // the directory of this process's threads
	machine *os.File // what the processors did; nil where that is not told
	threads map[string]*thread
	stolen  time.Duration // at the last sample
	sum     time.Duration // since the beginning

	mu    sync.Mutex
	count int64 // of samples
	kept  [delaysKeeps]delay
}

// thread is one of this process. Its file stays open, because this process has no descriptor left at times.
type thread struct {
	file   *os.File
	waited time.Duration // at the last sample
	seen   bool          // by the sample that is being taken
}

// delay is a sample, which takes long when its thread has to wait itself.
type delay struct {
	began, ended time.Time
	sum          time.Duration
}

// newDelays gives nil where the system does not count what threads wait for.
func newDelays(root string) *delays {
	d := &delays{root: root, over: make(chan struct{}), threads: map[string]*thread{}}
	var err error
	if d.tasks, err = os.Open(filepath.Join(root, "self", "task")); err != nil {
		return nil
	}
	d.machine, _ = os.Open(filepath.Join(root, "stat"))
	d.sample()
	for _, t := range d.threads {
		if ran, _, _ := t.read(); ran > 0 {
			return d
		}
	}
	d.close()
	return nil
}

// run takes samples until ctx ends, and closes the files then.
func (d *delays) run(ctx context.Context) {
	t := time.NewTicker(delaysEvery)
	defer t.Stop()
	defer d.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			d.sample()
		}
	}
}

func (d *delays) close() {
	close(d.over)
	_ = d.tasks.Close()
	_ = d.machine.Close()
	for _, t := range d.threads {
		_ = t.file.Close()
	}
}

// waited is what all threads waited between two instants that are over. It is counted from the last sample before them
// to the first one after them: what a thread waits is counted when it runs again.
func (d *delays) waited(after, before time.Time) time.Duration {
	if d == nil {
		return 0
	}
	t := time.NewTicker(delaysEvery)
	defer t.Stop()
	for d.last().began.Before(before) && !closed(d.over) {
		select {
		case <-t.C:
		case <-d.over:
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := max(0, d.count-delaysKeeps)
	last := d.count - 1
	for last > oldest && !d.kept[(last-1)%delaysKeeps].began.Before(before) {
		last--
	}
	first := last
	for first > oldest && d.kept[first%delaysKeeps].ended.After(after) {
		first--
	}
	return d.kept[last%delaysKeeps].sum - d.kept[first%delaysKeeps].sum
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// last is the last sample.
func (d *delays) last() delay {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[max(0, d.count-1)%delaysKeeps]
}

// sample adds what was waited since the last sample.
func (d *delays) sample() {
	began := time.Now()
	names := d.names()
	for _, t := range d.threads {
		t.seen = false
	}
	for _, name := range names {
		t, err := d.thread(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
			continue
		case err != nil: // there is no descriptor left: it may have waited all the time
			if last := d.last(); !last.began.IsZero() {
				d.sum += began.Sub(last.began)
			}
			continue
		}
		if _, waited, err := t.read(); err == nil {
			d.sum += max(0, waited-t.waited)
			t.waited, t.seen = waited, true
		}
	}
	for name, t := range d.threads {
		if !t.seen {
			_ = t.file.Close()
			delete(d.threads, name)
		}
	}
	if stolen, err := d.steal(); err == nil {
		d.sum += max(0, stolen-d.stolen)
		d.stolen = stolen
	}
	d.keep(delay{began, time.Now(), d.sum})
}

func (d *delays) keep(s delay) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[d.count%delaysKeeps] = s
	d.count++
}

// names are the threads.
func (d *delays) names() []string {
	if _, err := d.tasks.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	names, _ := d.tasks.Readdirnames(-1)
	return names
}

func (d *delays) thread(name string) (*thread, error) {
	if t := d.threads[name]; t != nil {
		return t, nil
	}
	f, err := os.Open(filepath.Join(d.root, "self", "task", name, "schedstat"))
	if err != nil {
		return nil, err
	}
	t := &thread{file: f}
	d.threads[name] = t
	return t, nil
}

// read gives for how long the thread ran, and for how long it waited for a processor.
func (t *thread) read() (ran, waited time.Duration, err error) {
	fields, err := numbers(t.file)
	if err != nil || len(fields) < 2 {
		return 0, 0, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return time.Duration(fields[0]), time.Duration(fields[1]), nil
}

// steal is for how long the processors were taken away from the machine.
func (d *delays) steal() (time.Duration, error) {
	fields, err := numbers(d.machine)
	if err != nil || len(fields) < 8 {
		return 0, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return time.Duration(fields[7]) * statTick, nil
}

// numbers are those of a file's first line.
func numbers(f *os.File) (all []int64, err error) {
	var b [256]byte
	n, err := f.ReadAt(b[:], 0)
	if n == 0 {
		return nil, err
	}
	line, _, _ := bytes.Cut(b[:n], []byte("\n"))
	for _, word := range bytes.Fields(bytes.TrimPrefix(line, []byte("cpu "))) {
		v, err := strconv.ParseInt(string(word), 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
