// Command strategy has a retry strategy of its own: it does what the default does, but for documents that are locked it
// does not wait. A strategy is an ordinary function of an ordinary struct, so it has an ordinary test beside it.
package main
