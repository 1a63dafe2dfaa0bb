package mock_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestSwitchesOfNodes(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	r, other := login(t, c, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	config := memd.Packet{Opcode: memd.OpGetClusterConfig}
	require.NoError(t, c.SetConfigOverKV("default", false, 1))
	require.Equal(t, memd.StatusNotSupported, other.call(config).Status)
	require.Equal(t, memd.StatusSuccess, r.call(config).Status)
	require.NoError(t, c.SetConfigOverKV("", true))
	require.Equal(t, memd.StatusSuccess, other.call(config).Status)

	bad := memd.Packet{Opcode: memd.OpGet, Key: docKey("k"), CAS: 1}
	require.NoError(t, c.SetErrorBodies("", false))
	require.Empty(t, r.call(bad).Value)
	require.NoError(t, c.SetErrorBodies("default", true))
	require.NotEmpty(t, r.call(bad).Value)

	list := memd.Packet{Opcode: memd.OpSASLListMechs}
	all := string(r.call(list).Value)
	c.SetMechanisms([]string{"plain"}, 0)
	require.Equal(t, "PLAIN", string(r.call(list).Value))
	require.Equal(t, all, string(other.call(list).Value))
	c.SetMechanisms(nil)
	require.Equal(t, all, string(r.call(list).Value))

	granted := func() memd.Features {
		fs, err := memd.ParseFeatures(dial(t, c, c.Node(0).Addr()).call(helloPacket(memd.FeatureSnappy)).Value)
		require.NoError(t, err)
		return fs
	}
	c.RefuseFeatures(memd.FeatureSnappy)
	require.Zero(t, granted())
	c.RefuseFeatures()
	require.True(t, granted().Has(memd.FeatureSnappy))

	require.NoError(t, c.SetSuspended(1, true))
	other.send(config, memd.Packet{Opcode: memd.OpNoop})
	require.Eventually(t, func() bool { return c.Frames(memd.OpNoop) == 1 }, patience, time.Millisecond)
	require.NoError(t, c.SetSuspended(1, false))
	other.send(memd.Packet{Opcode: memd.OpNoop})
	p, err := other.read()
	require.NoError(t, err)
	require.Equal(t, memd.OpNoop, p.Opcode, "what was taken while the node was suspended is never answered")

	for _, err := range []error{
		c.SetConfigOverKV("none", false), c.SetErrorBodies("none", false), c.SetManifestLag("none", true),
		c.SetCompression("none", "off"),
		c.SetCompression("default", "best"), c.SetSuspended(9, true), c.RenewHistories("none"),
		c.ChangeCopies("none", "k", nil, mock.CacheCopy, nil),
	} {
		require.Error(t, err)
	}
}

func TestCopiesOfADocument(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	_, err := c.Copies("none", "k")
	require.Error(t, err)
	r := login(t, c, baseFeatures...)
	r.set("k", "v")
	active, replica := c.Node(0).Index(), c.Node(1).Index()
	require.NoError(t, c.ChangeCopies("default", "k", []int{active}, mock.UncacheCopy, nil))
	require.NoError(t, c.ChangeCopies("default", "k", []int{replica}, mock.CacheCopy|mock.UnpersistCopy,
		&mock.Document{Value: []byte("w"), CAS: 7}))
	copies, err := c.Copies("default", "k")
	require.NoError(t, err)
	require.Len(t, copies, 2)
	require.Equal(t, []int{0, 1}, []int{copies[0].Place, copies[1].Place})
	require.Nil(t, copies[0].Memory)
	require.Equal(t, "v", string(copies[0].Disk.Value))
	require.Equal(t, "w", string(copies[1].Memory.Value))
	require.EqualValues(t, 7, copies[1].Memory.CAS)
	require.Nil(t, copies[1].Disk)
}

func TestWatchersAndHandlers(t *testing.T) {
	c := mock.Start(t)
	frames := make(chan mock.Frame, 8)
	stop := c.Watch(func(f mock.Frame) { frames <- f })
	second := c.Watch(func(mock.Frame) {})
	r := login(t, c, baseFeatures...)
	for _, op := range []memd.Opcode{memd.OpHello, memd.OpSASLAuth, memd.OpSelectBucket} {
		require.Equal(t, op, (<-frames).Opcode)
	}
	stop()
	stop()
	r.silent()
	require.Empty(t, frames)
	second()
	require.Nil(t, c.FrameLog(), "nothing is recorded by watching")

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() string {
		rs, err := client.Get("http://" + c.Node(0).ManagementAddr() + "/extra/x")
		require.NoError(t, err)
		defer rs.Body.Close()
		b, err := io.ReadAll(rs.Body)
		require.NoError(t, err)
		return string(b)
	}
	c.Handle("/extra/", http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		_,
			_ = io.WriteString(w, rq.URL.Path)
	}))
	require.Equal(t, "/extra/x", get())
	c.Handle("/extra/", nil)
	require.NotEqual(t, "/extra/x", get())

	require.True(t, mock.Executes(memd.OpGet))
	require.False(t, mock.Executes(memd.OpDCPOpen))
	require.Contains(t, string(c.ErrorMap()), `"errors"`)
	select {
	case <-c.Done():
		require.Fail(t, "the cluster runs")
	default:
	}
	require.NoError(t, c.Close())
	<-c.Done()
}
