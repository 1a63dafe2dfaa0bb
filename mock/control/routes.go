package control

import (
	"net/http"
	"reflect"
	"slices"
)

// route is one row of the table: what a request to a path does, what it takes and what it answers.
type route struct {
	method, path string
	does         string
	in, out      reflect.Type // of the body or, for GET and DELETE, of the parameters; of the answer
	limit        int64        // bytes of the body
	serve        func(*call) (any, error)
}

// nothing is the body of a request, or an answer, without members.
type nothing struct{}

// of makes a row from a function.
func of[In, Out any](method, path, does string, f func(*call, *In) (Out, error)) route {
	return route{
		method: method, path: path, does: does, limit: MaxBody,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		serve: func(c *call) (any, error) {
			in := new(In)
			var err error
			if method == http.MethodGet || method == http.MethodDelete {
				err = c.query(in)
			} else {
				err = c.read(in)
			}
			if err != nil {
				return nil, err
			}
			return f(c, in)
		},
	}
}

// sized is a row with another limit of the body.
func (rt route) sized(limit int64) route {
	rt.limit = limit
	return rt
}

const (
	get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete

	node   = "/v1/nodes/{node}"
	bucket = "/v1/buckets/{bucket}"
)

// routes is the table. What is not in it does not exist.
func routes() []route {
	return slices.Concat(
		clusterRoutes(), nodeRoutes(), forceRoutes(), logRoutes(),
		bucketRoutes(), dataRoutes(), serviceRoutes(), telemetryRoutes(),
	)
}

// clusterRoutes say how the cluster is, and begin anew.
func clusterRoutes() []route {
	return []route{
		of(get, "/{$}", "Says what this is and where to read on.", index),
		of(get, "/openapi.json", "This description.", describe),
		of(get, "/v1/cluster", "Addresses, nodes and buckets.", getCluster),
		of(get, "/v1/connections", "The connections to the key-value services of nodes.", connections),
		of(post, "/v1/reset",
			"Removes all injections, scripts and expectations, heals connections, and clears the logs.", reset),
	}
}

// nodeRoutes change the topology and what nodes do.
func nodeRoutes() []route {
	return []route{
		of(post, "/v1/cluster/rebalance",
			"Spreads the vbuckets over the nodes, those that were added included.", rebalance),
		of(post, "/v1/cluster/push", "Notifies the connections once more of the configuration in force.", push),
		of(post, "/v1/cluster/revision", "Publishes the configuration under the next revision or epoch.", bump),
		of(post, "/v1/nodes", "Starts a node; it gets vbuckets by the next rebalance.", addNode),
		of(post, node+"/kill", "Stops a node; the map still names it.", onNode((*mockCluster).Kill)),
		of(post, node+"/respawn",
			"Starts a node that was stopped, or lets one join again that has left.", onNode((*mockCluster).Respawn)),
		of(post, node+"/failover", "Takes a node out of the cluster and promotes its replicas.", failover),
		of(post, node+"/remove",
			"Moves a node's vbuckets to the others and takes it out of the cluster.",
			onNode((*mockCluster).RemoveNode)),
		of(post, node+"/suspend", "Makes a node silent: it takes requests and does nothing.", onNode(suspend)),
		of(post, node+"/resume", "Ends suspend.", onNode(resume)),
		of(post, node+"/disconnect", "Breaks a node's key-value connections.", disconnect),
		of(put, "/v1/connection-faults",
			"Lets key-value connections have faults: latency, pieces, pauses, loss. An empty object ends them.",
			connFaults),
		of(put, "/v1/mechanisms", "Sets the SASL mechanisms that nodes offer.", setMechanisms),
		of(put, "/v1/features/refused", "Sets the HELLO features that are refused.", refuseFeatures),
		of(put, node+"/alternate-address",
			"Sets the address of a node on the network \"external\"; an empty object ends that.", setAlternate),
		of(put, "/v1/certificates", "Lets nodes show another kind of certificate.", setCertificate),
		of(get, "/v1/certificates/ca", "The certificate of the cluster's authority.", getCA),
		of(post, "/v1/certificates/client", "A certificate by which a client is a user.", clientCertificate),
	}
}

// forceRoutes are about what is in force: injections, scripts, expectations.
func forceRoutes() []route {
	return []route{
		of(get, "/v1/injections", "The injections, also those that are used up.", list(injections)),
		of(post, "/v1/injections",
			"Puts faults in force for requests of the key-value service. Of several that match the newest that is "+
				"not used up acts.", inject),
		of(get, "/v1/injections/{id}",
			"How many requests an injection has met. It can wait for a number of them.", look(injections)),
		of(post, "/v1/injections/{id}/release",
			"Lets go of the requests that an injection holds.", release(injections)),
		of(del, "/v1/injections/{id}", "Ends an injection.", end(injections)),
		of(get, "/v1/scripts", "The scripts, also those that are used up.", list(scripts)),
		of(post, "/v1/scripts",
			"Answers requests of query, search, analytics, views, eventing or management. Of several that match the "+
				"newest that is not used up answers.", script),
		of(get, "/v1/scripts/{id}",
			"How many requests a script has answered. It can wait for a number of them.", look(scripts)),
		of(post, "/v1/scripts/{id}/release", "Lets go of the requests that a script holds.", release(scripts)),
		of(del, "/v1/scripts/{id}", "Ends a script.", end(scripts)),
		of(get, "/v1/expectations", "The expectations.", list(expectations)),
		of(post, "/v1/expectations",
			"Counts key-value requests from now on, and says later whether there were as many as expected.", expect),
		of(get, "/v1/expectations/{id}",
			"How many requests have come, and whether that is as expected. It can wait for a number of them.",
			look(expectations)),
		of(del, "/v1/expectations/{id}", "Ends an expectation.", end(expectations)),
		of(get, "/v1/unsupported",
			"Statements and searches that came and that the mock does not support: script them.", unsupported),
		of(del, "/v1/unsupported", "Empties that list.", clearUnsupported),
	}
}

// logRoutes tell what was received and executed.
func logRoutes() []route {
	return []route{
		of(get, "/v1/logs/frames", "Requests of the key-value service as nodes received them.", frameLog),
		of(del, "/v1/logs/frames", "Clears that log.", clearFrames),
		of(get, "/v1/logs/applied", "Mutations as nodes executed them.", applyLog),
		of(del, "/v1/logs/applied", "Clears that log.", clearApplied),
		of(get, "/v1/logs/http", "Requests of the other services as nodes received them.", httpLog),
		of(del, "/v1/logs/http", "Clears that log.", clearHTTP),
		of(post, "/v1/operations",
			"Tells those who look at the console of operations of a client, with their attempts. Nothing keeps them.",
			report),
		of(get, "/v1/counts", "The log of frames, counted by document and opcode.", counts),
	}
}

// bucketRoutes are about one bucket.
func bucketRoutes() []route {
	return []route{
		of(post, "/v1/buckets", "Makes a bucket.", createBucket),
		of(del, bucket, "Drops a bucket.", dropBucket),
		of(post, bucket+"/flush", "Removes all documents of a bucket.", flushBucket),
		of(put, bucket+"/settings",
			"Replica lag, persistence lag, durability and other properties of a bucket; absent members stay as they "+
				"are.", bucketSettings),
		of(post, bucket+"/vbuckets/{vbucket}/move", "Makes a node the active one of a vbucket.", moveVBucket),
		of(post, bucket+"/histories", "Gives every vbucket a new history.", renewHistories),
		of(get, bucket+"/map", "Where the copies of all vbuckets are.", vbuckets),
		of(get, bucket+"/where", "The vbucket of a key, and its nodes.", where),
		of(get, bucket+"/documents", "Documents as the active nodes have them.", documents),
		of(put, bucket+"/documents", "Stores documents, as fixtures do.", putDocuments).sized(MaxFixtureBody),
		of(get, bucket+"/copies", "A document as each node has it, in memory and on disk.", copies),
		of(put, bucket+"/copies", "Changes what nodes have of a document, in memory and on disk.", changeCopies),
		of(post, bucket+"/holds", "Makes a document look as if a durable write of it were under way.", hold),
		of(del, "/v1/holds/{id}", "Ends that.", endHold),
		of(post, bucket+"/collections", "Makes a collection, and its scope.", createCollection),
		of(del, bucket+"/collections", "Drops a collection, or a whole scope.", dropCollection),
		of(put, bucket+"/designs/{design}", "Stores a design document of views.", putDesign),
		of(del, bucket+"/designs/{design}", "Removes it.", dropDesign),
	}
}

// dataRoutes are about data, the clock and accounts.
func dataRoutes() []route {
	return []route{
		of(post, "/v1/fixtures",
			"Loads fixtures: buckets, collections, documents, users, statements, search indexes.",
			loadFixtures).sized(MaxFixtureBody),
		of(post, "/v1/fixtures/files",
			"Loads fixtures from a file or a folder of those that the mock was started with.", loadFiles),
		of(post, "/v1/snapshots", "Keeps the data as it is now.", takeSnapshot),
		of(post, "/v1/snapshots/{id}/restore", "Brings the data back.", restore),
		of(del, "/v1/snapshots/{id}", "Forgets a snapshot.", dropSnapshot),
		of(get, "/v1/clock", "The time by which documents expire and locks end.", clock),
		of(post, "/v1/clock", "Moves it.", travel),
		of(get, "/v1/users", "The names of the accounts.", users),
		of(put, "/v1/users/{user}", "Makes or changes an account.", putUser),
		of(del, "/v1/users/{user}", "Removes an account.", dropUser),
	}
}

// serviceRoutes are about the services and the error map.
func serviceRoutes() []route {
	return []route{
		of(post, "/v1/query/prepared/forget", "Forgets every prepared statement, as a restart does.", forgetPrepared),
		of(post, "/v1/query/prepared/fail",
			"Makes every statement that is prepared now fail with an error code.", failPrepared),
		of(put, "/v1/query/indexes",
			"Executes statements of the query service, definitions of indexes for example.", execute),
		of(put, "/v1/search/indexes/{index}", "Stores the definition of a search index.", putSearchIndex),
		of(put, "/v1/capabilities/{service}",
			"Sets the capabilities that the configuration lists for a service.", setCapabilities),
		of(get, "/v1/errormap", "The error map that nodes hand out.", getErrorMap),
		of(put, "/v1/errormap", "Replaces it.", setErrorMap),
		of(post, "/v1/errormap/codes", "Puts one more code into it.", addErrorCode),
	}
}
