// Package call is one key-value operation on its way: the call, its request and its answer as the wire has them, who
// owns it, and what becomes of it. Operations (package kv) load a call and read its answer; a Runner sends it. The
// tables of opcodes and of statuses are here: the client and the command's explain decide by the same functions.
//
// A call has one owner at a time: its starter until Dispatch, then the Runner until the call ends, exactly once, then
// the starter again. See ARCHITECTURE.md.
package call
