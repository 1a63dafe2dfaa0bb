// Package kv holds the key-value operations for programs: one type per operation with its fields, its result, the error
// type, and the ways to run an operation: Do, Start, Go and Batch. What runs them is a Dispatcher, which a core.Bucket
// and a core.Collection are. Above them are the forms that take several requests: GetAnyReplica and GetAllReplicas read
// from replicas, Scan finds documents, DoPolled waits for durability as old servers have it, StatAll asks all nodes.
//
//	res, err := kv.Do(ctx, bucket, kv.Get{Key: []byte("airline_10")})
//	switch {
//	case errors.Is(err, cberr.DocumentNotFound):
//	case err != nil: // a *kv.Error says on which node, after how many retries, and whether it may have been applied
//	}
//
// It never opens a socket, reads a cluster map, or decides whether to retry an operation. Do, Start and Go start no
// timer; a scan and DoPolled pause between their requests.
package kv
