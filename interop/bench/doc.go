// Command bench is the command of that name in the module above, and measures gocb beside the clients there, with its defaults.
// It is run from interop/; the first time gocb is fetched.
//
//	go run ./bench --only '^(get|upsert) 256 B, 128 workers$'
package main
