package mock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func ExampleNew() {
	c, err := mock.New(mock.Nodes(3), mock.Bucket("orders", 64, mock.WithCollection("eu", "carts")), mock.Virtual())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.ConnString())
	// Output: couchbase://10.0.0.1:11210,10.0.0.2:11210,10.0.0.3:11210
}

func ExampleCluster_Inject() {
	c, err := mock.New(mock.Virtual())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// The next two reads of "k" fail for now, then reads work again.
	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Key: []byte("k"), Times: 2},
		mock.Status(memd.StatusTmpFail))
	defer in.Remove()
	fmt.Println(in.Fired())
	// Output: 0
}

func ExampleInjection_WaitFired() {
	c, err := mock.New(mock.Virtual())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Hold())
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(in.WaitFired(ctx, 1)) // no write has come
	in.Release()
	// Output: context deadline exceeded
}

func ExampleCluster_Rebalance() {
	c, err := mock.New(mock.Nodes(2), mock.Virtual())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println("added node", c.AddNode())
	fmt.Println(c.Rebalance())
	// Output:
	// added node 2
	// <nil>
}
