package mock_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// judged stands in for a test that Expect fails.
type judged struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (j *judged) Helper()          {}
func (j *judged) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }
func (j *judged) Errorf(format string, _ ...any) {
	j.failures = append(j.failures, format)
}

func TestExpectations(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	for want, sent := range map[int]int{1: 1, 2: 1, 0: 1} {
		j := &judged{TB: t}
		c.Expect(j, mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, KeyPattern: regexp.MustCompile("^a")}, want)
		r.call(storePacket(memd.OpSet, "abc", "v"))
		r.call(storePacket(memd.OpSet, "bcd", "v"))
		for _, f := range j.cleanups {
			f()
		}
		require.Equal(t, want != sent, len(j.failures) > 0, "want %d", want)
	}
	n := c.Count(mock.Match{Key: []byte("k")})
	r.call(storePacket(memd.OpSet, "k", "v"))
	n.Remove()
	r.call(storePacket(memd.OpSet, "k", "v"))
	require.Equal(t, 1, n.Fired())
	m := mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Key: []byte("k")}
	require.Equal(t, `opcodes [SET], key "k"`, m.String())
	require.Equal(t, "everything", (&mock.Match{}).String())
}

func TestFaultsInTurnAndTogether(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	in := c.Inject(mock.Match{Key: []byte("k")}, mock.Status(memd.StatusBusy), mock.Fault{}, mock.Combine(
		mock.RewriteRequest(func(p *memd.Packet) { p.Value = append(p.Value, '!') }),
		mock.Rewrite(func(_, rep *memd.Packet) { rep.CAS = 1 }),
		mock.Rewrite(func(_, rep *memd.Packet) { rep.CAS++ }),
		mock.DelayReply(time.Millisecond)))
	set := func() memd.Packet { return r.call(storePacket(memd.OpSet, "k", "v")) }
	require.Equal(t, memd.StatusBusy, set().Status)
	require.Greater(t, set().CAS, uint64(2))
	require.EqualValues(t, 2, set().CAS)
	require.EqualValues(t, 2, set().CAS)
	require.Equal(t, 4, in.Fired())
	in.Remove()
	require.Equal(t, "v!", string(r.call(keyed(memd.OpGet, "k")).Value))
	both := mock.Combine(mock.Status(memd.StatusBusy), mock.Fault{}, mock.Hold())
	require.Equal(t, "status EBUSY, hold", both.String())
}

func TestFrameLog(t *testing.T) {
	c := mock.Start(t, mock.RecordFrames(), mock.Bucket("default", 0, mock.WithCollection("s", "c")))
	r := login(t, c, baseFeatures...)
	c.ClearFrameLog()
	r.call(storePacket(memd.OpSet, "k", "v"))
	r.call(memd.Packet{
		Opcode: memd.OpSet, Key: inCollection(8, []byte("in")), Value: []byte("w"), CAS: 5, Extras: make([]byte, 8),
	})
	log := c.FrameLog()
	require.Len(t, log, 2)
	f := log[1]
	require.Equal(t, []any{"default", "s.c", "in", "w", uint64(5), mock.DefaultUser},
		[]any{f.Bucket, f.Collection, f.Document, string(f.Value), f.CAS, f.User})
	require.Equal(t, []mock.KeyCount{
		{Bucket: "default", Collection: "_default._default", Document: "k", Opcode: memd.OpSet, Requests: 1},
		{Bucket: "default", Collection: "s.c", Document: "in", Opcode: memd.OpSet, Requests: 1},
	}, c.KeyCounts())
	c.LimitFrameLog(3)
	for range 20 {
		r.call(keyed(memd.OpGet, "k"))
	}
	require.Len(t, c.FrameLog(), 3)
}

// Passwords are in no frame.
func TestFramesKeepNoSecrets(t *testing.T) {
	c := mock.Start(t, mock.RecordFrames())
	login(t, c, baseFeatures...)
	for _, f := range c.FrameLog() {
		require.NotContains(t, string(f.Value), mock.DefaultPassword, "%v", f.Opcode)
	}
}

func TestFixturesOfOptions(t *testing.T) {
	read, err := mock.ReadFixtures(fstest.MapFS{
		"a.json":       {Data: []byte(`{"users":[{"name":"u","password":"p"}]}`)},
		"m/s/c/k.json": {Data: []byte(`{"a":1}`)},
	}, ".")
	require.NoError(t, err)
	opts := []mock.Option{
		mock.Bucket("default", 0), mock.Bucket("plain", 0, mock.Memcached()), mock.Nodes(2),
		mock.Documents("default", map[string]any{"k": 1, "b": mock.Doc{Value: []byte{1}, Flags: 9}}),
		mock.Documents("default.s.c", map[string]any{"k": []string{"x"}}),
		mock.Documents("plain", map[string]any{"k": "text"}),
	}
	for _, f := range read {
		opts = append(opts, mock.WithFixtures(f))
	}
	c := mock.Start(t, opts...)
	require.Equal(t, []string{"default", "m", "plain"}, c.Buckets())
	require.Equal(t, []string{mock.DefaultUser, "u"}, c.Users())
	docs := map[string]string{}
	for _, d := range c.Documents("default") {
		docs[c.CollectionName("default", d.Collection)+"/"+d.Key] = string(d.Value)
	}
	require.Equal(t, map[string]string{
		"_default._default/k": "1", "_default._default/b": "\x01", "s.c/k": `["x"]`,
	}, docs)
	require.Len(t, c.Documents("plain"), 2, "every node of a memcached bucket")
	require.Empty(t, c.ApplyLog("default"))
	for text, why := range map[string]string{
		`{"buckets":{"x":{"type":"odd"}}}`:                                     "bucket type",
		`{"buckets":{"default":{"collections":{"odd":{}}}}}`:                   "scope.collection",
		`{"buckets":{"default":{"documents":{"":1}}}}`:                         "1 to 246",
		`{"buckets":{"default":{"documents":{"k":{"$base64":"?"}}}}}`:          "illegal base64",
		`{"buckets":{"default":{"documents":{"k":{"$text":1}}}}}`:              "not a text",
		`{"buckets":{"default":{"documents":{"k":{"$text":"","$flags":-1}}}}}`: "32 bits",
		`{"statements":["SELEC"]}`:                                             "SELEC",
		`{"users":[{"password":"p"}]}`:                                         "without a name",
		`{"search_indexes":{"i":[]}}`:                                          "search index i",
	} {
		f, err := mock.ParseFixtures([]byte(text))
		require.NoError(t, err, text)
		require.ErrorContains(t, c.Load(f), why)
	}
	for _, text := range []string{`{"odd":1}`, `[]`, `{} {}`, `{} }`, ``} {
		_, err := mock.ParseFixtures([]byte(text))
		require.Error(t, err, text)
	}
	for name, files := range map[string]fstest.MapFS{
		"BUCKET/SCOPE/COLLECTION/KEY": {"a/b": {Data: []byte("{}")}}, "not JSON": {"a/b/c/d.json": {Data: []byte("{")}},
	} {
		_, err := mock.ReadFixtures(files, ".")
		require.ErrorContains(t, err, name)
	}
}

// A snapshot is of its own cluster, and of a node's data whatever the topology is by then.
func TestSnapshotsAcrossTopologies(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Documents("default", map[string]any{"a": 1, "b": 2, "c": 3}))
	s := c.Snapshot()
	require.NoError(t, c.Flush("default"))
	c.AddNode()
	require.NoError(t, c.Rebalance())
	require.NoError(t, c.Failover(1))
	require.NoError(t, c.Restore(s))
	require.Len(t, c.Documents("default"), 3)
	c.AddUser("new", "p")
	require.NoError(t, c.SetPassword(mock.DefaultUser, "other"))
	require.NoError(t, c.Restore(s))
	require.Equal(t, []string{mock.DefaultUser}, c.Users())
	login(t, c, baseFeatures...)
	require.Error(t, mock.Start(t).Restore(s))
}

func TestLogger(t *testing.T) {
	var text bytes.Buffer
	c, err := mock.New(mock.Logger(slog.New(slog.NewTextHandler(&text, nil))))
	require.NoError(t, err)
	c.Inject(mock.Match{Key: []byte("k")}, mock.Status(memd.StatusBusy))
	r := login(t, c, baseFeatures...)
	r.call(storePacket(memd.OpSet, "k", "secret"))
	c.BumpRevision()
	require.NoError(t, c.Kill(0))
	require.NoError(t, c.Close())
	for _, line := range []string{"node started", "fault", "status EBUSY", "configuration", "node stopped"} {
		require.Contains(t, text.String(), line)
	}
	require.NotContains(t, text.String(), "secret")
}
