# Thin: each target is one command that could be typed instead. The gate is .ci/run.
LINT = go tool -modfile=tools/go.mod golangci-lint

.PHONY: help check test vet lint fmt race fuzz demo bench bench-gate couchbasemock interop api release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: test vet lint ## test, vet and lint

test: ## run all tests
	go test ./...

vet: ## look for suspicious code
	go vet ./...

lint: ## run the linters
	$(LINT) run

fmt: ## format the code
	$(LINT) fmt

race: ## run the tests of what is concurrent under the race detector
	.ci/run race

fuzz: ## run every fuzz target for a while
	.ci/run fuzz

demo: ## show couchcore at work
	go run ./cmd/couchcore demo

bench: ## compare two revisions
	bench/compare.sh

bench-gate: ## measure the matrix, and judge it
	go run ./bench --matrix --gate

couchbasemock: ## build the real CouchbaseMock for the opt-in tests
	interop/couchbasemock.sh

interop: ## run the opt-in tests against foreign servers
	.ci/run interop

api: ## write the list of exported names anew, after a change that is meant
	go test . -run TestTheExportedNamesAreListed -update

release: ## build the command for every platform into dist, the same bytes wherever it is built
	.ci/release dist
