package couchcore_test

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/couchbase/gocbcore/v10"
	_ "github.com/couchbase/gocbcore/v10/connstr"
	_ "github.com/couchbase/gocbcore/v10/memd"
	_ "github.com/stretchr/testify/require"
	_ "github.com/xdg-go/scram"
	_ "go.opentelemetry.io/otel/attribute"
	_ "go.opentelemetry.io/otel/codes"
	_ "go.opentelemetry.io/otel/metric"
	_ "go.opentelemetry.io/otel/metric/noop"
	_ "go.opentelemetry.io/otel/trace"
	_ "go.opentelemetry.io/otel/trace/noop"
	_ "go.uber.org/goleak"
	_ "pgregory.net/rapid"
)
