// Package subdoc is the mock's sub-document engine: paths, the commands on them, and requests of one path or several.
// Everything in it is a pure function of bytes.
//
// Decode reads a request and refuses one that is not in order. Spec.Read and Spec.Write execute one command on the
// bytes of a JSON document. An extended attribute is a document of one member, see AttributeDoc, so that the same
// commands work on it.
//
// What it never holds: documents with their CAS, locks and expiries, the attributes of one, connections, clocks.
package subdoc
