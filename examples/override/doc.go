// Command override changes how a single operation is retried: the cluster's strategy stays as it is, and one call
// brings its own. The cluster is a mock inside this process that refuses reads for a while.
package main
