package core_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

func TestManifestAndBucketsOfTheClusterManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Virtual(), mock.Bucket("default", 64, mock.WithCollection("eu",
			"users")), mock.Bucket("other", 16))
		c := open(t, m)
		manifest, err := c.Bucket("default").Manifest(ctx(t))
		require.NoError(t, err)
		require.NotZero(t, manifest.UID)
		found := map[string]uint32{}
		for _, s := range manifest.Scopes {
			for _, col := range s.Collections {
				found[s.Name+"."+col.Name] = col.ID
			}
		}
		require.Contains(t, found, "_default._default")
		require.NotZero(t, found["eu.users"])
		list, err := c.Buckets(ctx(t))
		require.NoError(t, err)
		names := map[string]int{}
		for _, b := range list {
			names[b.Name] = b.VBuckets
		}
		require.Equal(t, map[string]int{"default": 64, "other": 16}, names)
		_, err = c.Bucket("missing").Manifest(ctx(t))
		require.ErrorIs(t, err, cberr.BucketNotFound)
		var e *core.ManagementError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 404, e.Status)
	})
}

func TestManagementAnswersThatAreNoJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
		_, err := c.Buckets(ctx(t))
		require.ErrorIs(t, err, cberr.DecodingFailure)
		_, err = c.Bucket("default").Manifest(ctx(t))
		require.ErrorIs(t, err, cberr.DecodingFailure)
	})
}

// TestPingService asks one node, once.
func TestPingService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, asked := 200, 0
		c := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			time.Sleep(3 * time.Millisecond)
			w.WriteHeader(status)
		})
		nodes := c.Endpoints(core.Management)
		require.Len(t, nodes, 2)
		took, err := c.PingService(ctx(t), core.Management, nodes[1])
		require.NoError(t, err)
		require.Equal(t, 3*time.Millisecond, took)
		status = 503
		_, err = c.PingService(ctx(t), core.Management, nodes[1])
		require.Error(t, err)
		require.Equal(t, 2, asked)
		_, err = c.PingService(ctx(t), core.Management, "elsewhere:1")
		require.ErrorIs(t, err, cberr.InvalidArgument)
		_, err = c.PingService(ctx(t), 200, nodes[0])
		require.ErrorIs(t, err, cberr.InvalidArgument)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.PingService(gone, core.Management, nodes[0])
		require.ErrorIs(t, err, cberr.RequestCanceled)
	})
}
