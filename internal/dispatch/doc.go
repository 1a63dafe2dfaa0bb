// Package dispatch sends key-value calls: it finds the node of a call in the newest cluster map, keeps as many
// connections to each node as the configuration says, each with a bounded room of calls that wait for it, repairs what
// a moved vbucket or a changed collection breaks, and hands every other failure to the retry orchestrator.
//
// It knows nothing of a single operation, and nothing of HTTP.
package dispatch
