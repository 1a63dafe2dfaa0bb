// Package core is what an application opens: a cluster, its buckets, and the wiring between configuration, connections,
// cluster maps, retries and reports.
//
//	cfg, err := core.ParseConnString("couchbases://cb.example.com")
//	cfg.Auth.Username, cfg.Auth.Password = "app", core.NewSecret(password)
//	cluster, err := core.Open(ctx, cfg) // once, for the whole program
//	defer cluster.Close()
//	res, err := kv.Do(ctx, cluster.Bucket("travel"), kv.Get{Key: []byte("airline_10")})
//
// Key-value operations are those of package kv, on a Bucket or a Collection; methods of Cluster and Bucket are for the
// services. WaitReady waits until a cluster can be used or says why it cannot, Shutdown lets operations finish, and
// Diagnostics and Ping tell how connections are.
//
// It never encodes or decodes a packet, switches on a status, or reads a row.
package core

// Version is that of this module, by semantic versioning. Before 1.0.0 a minor version may change the API.
const Version = "0.1.0"
