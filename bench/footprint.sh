#!/usr/bin/env bash
# What a program downloads, links and weighs that uses couchcore's core and kv, beside the same with gocbcore: the figures of
# docs/dependencies.md. Modules come from this machine's module cache, so run `go mod download` and `go test ./...` once
# before; nothing is fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
cache=$(go env GOMODCACHE)/cache/download
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
gocbcore=$(go list -m -f '{{.Version}}' github.com/couchbase/gocbcore/v10)

# program NAME IMPORT... makes a module that imports packages, builds it with an empty module cache, and prints a row.
program() {
	local name=$1 dir=$work/$1
	shift
	mkdir -p "$dir"
	{
		printf 'package main\n\nimport (\n'
		printf '\t_ "%s"\n' "$@"
		printf ')\n\nfunc main() {}\n'
	} >"$dir/main.go"
	(
		cd "$dir"
		export GOMODCACHE=$dir/mod GOPROXY=file://$cache GOSUMDB=off GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
		go mod init "example.com/$name" 2>/dev/null
		if [ "$name" = gocbcore ]; then
			go mod edit -require "github.com/couchbase/gocbcore/v10@$gocbcore"
		else
			go mod edit -require github.com/couchcore/couchcore@v0.0.0 -replace "github.com/couchcore/couchcore=$here"
		fi
		go build -trimpath -ldflags '-s -w' -o program . 2>/dev/null
		printf '| %s | %d | %d | %.1f | %.1f |\n' "$name" "$(wc -l <go.sum)" "$(go version -m program | grep -c '^	dep')" \
			"$(find mod/cache/download -name '*.zip' -printf '%s\n' | awk '{n += $1} END {print n / 1e6}')" \
			"$(stat -c %s program | awk '{print $1 / 1e6}')"
		find mod/cache/download -name '*.zip' -printf '%s %P\n' | sort -rn | head -n 4 |
			awk '{printf "    %.1f MB %s\n", $1 / 1e6, $2}' >&2
	)
}

echo '| program | lines of go.sum | modules linked | MB downloaded | MB of the binary |'
echo '|---|---|---|---|---|'
program couchcore github.com/couchcore/couchcore/core github.com/couchcore/couchcore/kv
program couchcore-command github.com/couchcore/couchcore/core github.com/couchcore/couchcore/mock
program gocbcore github.com/couchbase/gocbcore/v10
