package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// ManagementError is a refusal of the cluster manager: its HTTP Status, the Text as far as it was kept, the Kind that
// the two have, and the Fields of the request that it complains about, with what is wrong with each. Manifest and
// Buckets return it inside of the request's error.
type ManagementError = httpsvc.ManagementError

// managementLimit bounds an answer of the cluster manager that is read whole.
const managementLimit = 64 << 20

// ManagementOptions are settings of one of the client's requests to the cluster manager. Its zero value has the
// defaults.
type ManagementOptions struct {
	Retry                        retry.Strategy // nil inherits the cluster's
	Timeout                      time.Duration  // 0 means ctx's, or else the configuration's ManagementTimeout
	Endpoint                     string         // "host:port" of the node that must answer; "" is any
	OnBehalfOf, OnBehalfOfDomain string         // as in HTTPRequest
}

// Manifest asks the cluster manager for the bucket's scopes and collections; what a node of the data service knows may
// be older: see kv.GetManifest. It blocks until the answer is there, at most until the deadline: ctx's, or else the
// configuration's ManagementTimeout. A bucket that does not exist is cberr.BucketNotFound. Of several options the last
// one counts.
func (b *Bucket) Manifest(ctx context.Context, options ...ManagementOptions) (m kv.Manifest, err error) {
	path := httpsvc.Path("pools", "default", "buckets", b.name, "scopes")
	if err = b.c.manage(ctx, options, "manifest", path, &m); err != nil {
		return kv.Manifest{}, err
	}
	return m, nil
}

// BucketInfo is what the cluster manager says of a bucket.
type BucketInfo struct {
	Name        string
	UUID        string
	Type        string // "membase", "ephemeral" or "memcached"
	Storage     string // "couchstore" or "magma", where the server says so
	VBuckets    int
	Replicas    int
	Quota       uint64 // bytes of memory in the whole cluster
	Durability  string // the least level of its writes
	Compression string
}

// Buckets lists the buckets that the credentials may see. It blocks until the answer is there, at most until the
// deadline: ctx's, or else the configuration's ManagementTimeout. Of several options the last one counts.
func (c *Cluster) Buckets(ctx context.Context, options ...ManagementOptions) ([]BucketInfo, error) {
	var list []struct {
		Name     string `json:"name"`
		UUID     string `json:"uuid"`
		Type     string `json:"bucketType"`
		Storage  string `json:"storageBackend"`
		VBuckets int    `json:"numVBuckets"`
		Replicas int    `json:"replicaNumber"`
		Quota    struct {
			RAM uint64 `json:"ram"`
		} `json:"quota"`
		Durability  string `json:"durabilityMinLevel"`
		Compression string `json:"compressionMode"`
		Map         struct {
			VBuckets []json.RawMessage `json:"vBucketMap"`
		} `json:"vBucketServerMap"`
	}
	if err := c.manage(ctx, options, "buckets", httpsvc.Path("pools", "default", "buckets"), &list); err != nil {
		return nil, err
	}
	out := make([]BucketInfo, 0, len(list))
	for _, b := range list {
		if b.VBuckets == 0 {
			b.VBuckets = len(b.Map.VBuckets)
		}
		out = append(out, BucketInfo{
			b.Name, b.UUID, b.Type, b.Storage, b.VBuckets, b.Replicas, b.Quota.RAM, b.Durability, b.Compression,
		})
	}
	return out, nil
}

// manage reads a resource of the cluster manager.
func (c *Cluster) manage(ctx context.Context, options []ManagementOptions, operation, path string, v any) error {
	var o ManagementOptions
	if n := len(options); n > 0 {
		o = options[n-1]
	}
	ctx, leave := c.enter(ctx)
	defer leave()
	resp, err := c.doer().Do(ctx, &httpsvc.Request{
		Service: Management, Operation: operation, Method: "GET", Path: path, UniqueID: httpsvc.NewUniqueID(),
		Judge: httpsvc.JudgeManagement, Strategy: o.Retry, Timeout: o.Timeout, Endpoint: o.Endpoint,
		OnBehalfOf: o.OnBehalfOf, OnBehalfOfDomain: o.OnBehalfOfDomain,
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, managementLimit+1))
	if err == nil && len(data) > managementLimit {
		err = httpsvc.ErrTooLarge
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	var e *httpsvc.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &httpsvc.Error{
		Service: Management.String(), Operation: operation, Method: "GET", Path: path, Endpoint: resp.Endpoint,
		Kind: cberr.DecodingFailure, Retry: resp.Retry, Cause: err,
	}
}

// pingPaths are what the services answer without doing anything.
var pingPaths = map[Service]string{
	// "/" leads to a page for people
	Query: "/admin/ping", Analytics: "/admin/ping", Search: "/api/ping", Views: "/", Management: "/whoami",
}

// Endpoints are the addresses of the nodes that offer a service, by the newest cluster map; empty before there is one.
func (c *Cluster) Endpoints(service Service) []string {
	svc, ok := httpx.InMap(service)
	if !ok {
		return nil
	}
	addrs, _ := c.endpoints(svc, "")
	return addrs
}

// PingService asks one node whether a service answers there, once, and says how long that took. It blocks until the
// answer is there, at most until the deadline: ctx's, or else the configuration's timeout of the service.
func (c *Cluster) PingService(ctx context.Context, service Service, endpoint string) (time.Duration, error) {
	path, ok := pingPaths[service]
	if !ok {
		return 0, fmt.Errorf("%w: %v cannot be pinged", cberr.InvalidArgument, service)
	}
	ctx, leave := c.enter(ctx)
	defer leave()
	began := time.Now()
	resp, err := c.doer().Do(ctx, &httpsvc.Request{
		Service: service, Operation: "ping", Method: "GET", Path: path, UniqueID: httpsvc.NewUniqueID(),
		Endpoint: endpoint, Strategy: call.Strict,
	})
	if err != nil {
		return time.Since(began), err
	}
	took := time.Since(began)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10+1)) // the status is the answer, whatever of the rest is lost
	resp.Body.Close()
	if resp.Status != 200 {
		err = &httpsvc.Error{
			Service: service.String(), Operation: "ping", Method: "GET", Path: path, Endpoint: resp.Endpoint,
			Kind: cberr.ServiceNotAvailable, Cause: errors.New("status " + strconv.Itoa(resp.Status)),
			Retry: resp.Retry, Response: httpsvc.NewResponseError(resp, body, retry.Pushback{}),
		}
	}
	return took, err
}
