# Thin: each target is one command that could be typed instead. The gate is .ci/run.
LINT = go tool -modfile=tools/go.mod golangci-lint

.PHONY: check test vet lint fmt race fuzz demo bench bench-gate couchbasemock interop

check: test vet lint

test:
	go test ./...

vet:
	go vet ./...

lint:
	$(LINT) run

fmt:
	$(LINT) fmt

race:
	.ci/run race

fuzz:
	.ci/run fuzz

demo:
	go run ./cmd/couchcore demo

bench:
	bench/compare.sh

bench-gate:
	go run ./bench --matrix --gate

couchbasemock:
	interop/couchbasemock.sh

interop:
	.ci/run interop
