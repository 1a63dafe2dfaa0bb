package minisdk

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/couchcore/couchcore/core"
)

// observe has couchcore make the spans of attempts alone: those of operations are the SDK's.
func observe(cfg *core.Config, p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	cfg.Observe.TracerProvider, cfg.Observe.OuterIsCallers = p, true
	cfg.Observe.Instrumentation, cfg.Observe.InstrumentationVersion = "minisdk", version
	return p.Tracer("minisdk", trace.WithInstrumentationVersion(version))
}

// begin opens the span of an operation. couchcore finds it in the context; end is told the outcome.
func (c *Cluster) begin(ctx context.Context, op string) (_ context.Context, end func(error)) {
	if c.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := c.tracer.Start(ctx, op, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
