package errormap_test

import (
	"fmt"

	"github.com/couchcore/couchcore/errormap"
)

// A node's error map says what a status means that the client does not know.
func ExampleParse() {
	m, err := errormap.Parse([]byte(`{"version":2,"revision":1,"errors":{
		"7f01":{"name":"BUSY","desc":"The node does something else","attrs":["temp","retry-later"]}}}`), 1<<20)
	if err != nil {
		panic(err)
	}
	e, known := m.Lookup(0x7f01)
	fmt.Println(known, e.Name, e.RetryIndicated(), e.MayHaveApplied())
	// Output: true BUSY true false
}
