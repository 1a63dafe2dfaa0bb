// Command console is a client that tells the console of a mock what becomes of its operations: the attempts, the
// statuses that failed them and the reasons for which it tried again. Start a mock, open the page that its line calls
// console, and give the program the two addresses of that line:
//
//	couchcore mock --console
//	go run ./examples/console CONNECTION_STRING CONTROL_API
package main
