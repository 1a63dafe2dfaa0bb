package call_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew; read the diff before committing it")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
