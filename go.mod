module github.com/couchcore/couchcore

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/couchbase/gocbcore/v10 v10.9.3
	github.com/stretchr/testify v1.12.1
	github.com/xdg-go/scram v1.4.0
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/metric v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)
