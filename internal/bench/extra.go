package bench

// Extra is a client from outside this module, which is to be measured beside the others.
type Extra struct {
	Name  string
	About string // what it is, in a few words
	// Open connects to all of the responder's nodes, which take any user with PLAIN, and to the bucket. It returns when documents can
	// be read and written.
	Open func(addrs []string, bucket string) (Documents, error)
}

// Documents is such a client, connected. All methods but Close are called from many goroutines at once and block until there is an answer.
type Documents interface {
	// Get gives a document's content.
	Get(key string) ([]byte, error)
	// Upsert writes one, whose content nobody changes.
	Upsert(key string, value []byte) error
	// Close ends the connections.
	Close() error
}

func extraKinds(extra []Extra) []kind {
	var out []kind
	for _, e := range extra {
		out = append(out, kind{name: e.Name, about: e.About, open: func(t target) (client, error) {
			docs, err := e.Open(t.addrs, string(t.mode))
			if err != nil {
				return nil, err
			}
			return newForeign(docs), nil
		}})
	}
	return out
}

// foreign is the client of an Extra. Its keys are strings, made once, as such clients take them.
type foreign struct {
	docs   Documents
	keys   [len(sizes)][]string
	values [len(sizes)][]byte
}

func newForeign(docs Documents) *foreign {
	f := &foreign{docs: docs}
	for class, size := range sizes {
		for _, k := range keys(class) {
			f.keys[class] = append(f.keys[class], string(k))
		}
		f.values[class] = value(size)
	}
	return f
}

func (f *foreign) work(j job, worker int) func() (int, error) {
	class := classOf(j.Size)
	all, val := f.keys[class], f.values[class]
	r := newRotation(j, worker, nil)
	if j.Op == opUpsert {
		return func() (int, error) {
			return 1, f.docs.Upsert(all[r.at()], val)
		}
	}
	return func() (int, error) {
		got, err := f.docs.Get(all[r.at()])
		if err == nil {
			err = checkLen(len(got), j.Size)
		}
		return 1, err
	}
}

func (f *foreign) close() { _ = f.docs.Close() }
