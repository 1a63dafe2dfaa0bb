// Package trigger is what faults and scripted answers of the mock have in common: they are in force until they are
// removed, pass over the first requests, act on so many, hold requests until they are released, and say how many they
// have met.
//
// A List has those in force; Add puts one into force and returns the Trigger by which a test controls it. The one that
// serves a request asks the items of All in turn, by Take, after it has found that the request is one of theirs.
//
// What it never holds: requests, and what is done to them.
package trigger
