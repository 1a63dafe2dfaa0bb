// Package viewjs runs the JavaScript of views for the mock: map and reduce functions, within limits on time, memory and
// depth. It also compiles functions of the eventing service, which do not run. It is handed to a cluster as an option,
//
//	mock.Start(t, mock.Views(viewjs.New(viewjs.Options{})))
//
// so that only those who use it link an interpreter. The indexes, the collation, the grouping and the answers are
// the mock's; nothing here knows of documents or requests.
package viewjs
