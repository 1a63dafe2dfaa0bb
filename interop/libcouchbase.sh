#!/usr/bin/env bash
# The tests of libcouchbase, with a mock in CouchbaseMock's place. npm has the source of libcouchbase 3.3.4, tests
# included, in the package couchbase 3.2.7; no Debian package has it. It takes cmake, g++, npm, unshare and ip.
#
#   interop/libcouchbase.sh install              builds them in COUCHCORE_INTEROP_CACHE, some minutes
#   interop/libcouchbase.sh run [FILTER]         runs them against `couchcore mock --couchbasemock`
#   interop/libcouchbase.sh couchbasemock [FILTER]  runs them against CouchbaseMock (interop/couchbasemock.sh)
#
# FILTER is one of googletest. They run in a network namespace that has only a loopback interface. suites.md says what
# fails and why. CI does not run this.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${COUCHCORE_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/couchcore-interop}/libcouchbase
tests=$cache/build/bin/unit-tests

install() {
	[ -x "$tests" ] && return 0
	mkdir -p "$cache/build"
	(cd "$cache" && npm pack --silent couchbase@3.2.7 >/dev/null && tar -xzf couchbase-3.2.7.tgz package/deps/lcb)
	# The build looks for CouchbaseMock and asks it for its version; nothing is downloaded when a file is there.
	: >"$cache/package/deps/lcb/tests/CouchbaseMock.jar"
	cmake -S "$cache/package/deps/lcb" -B "$cache/build" -DCMAKE_BUILD_TYPE=None -DJAVA=/bin/true -DLCB_NO_TOOLS=1 \
		-DLCB_NO_PLUGINS=1 -DLCB_SKIP_GIT_VERSION=1
	cmake --build "$cache/build" --target unit-tests --parallel 2
}

# run FILTER COMMAND... runs the tests; each starts COMMAND, through the script whose name it knows.
run() {
	local filter=$1 work
	shift
	work=$(mktemp -d)
	mkdir "$work/tests"
	printf '#!/bin/sh\nexec %s --cccp --nodes=4 --host=localhost --port=0 "$@"\n' "$(printf '%q ' "$@")" \
		>"$work/tests/start_mock.sh"
	chmod +x "$work/tests/start_mock.sh"
	cd "$cache/build"
	# shellcheck disable=SC2016 # the inner shell's arguments
	srcdir=$work LCB_IOPS_NAME=select timeout 1200 unshare -rn sh -c 'ip link set lo up && exec "$@"' sh \
		"$tests" "--gtest_filter=$filter"
}

case "${1:-}" in
install) install ;;
run)
	install
	mock=$(mktemp -d)/couchcore
	(cd "$here/.." && go build -o "$mock" ./cmd/couchcore)
	run "${2:-*}" "$mock" mock --couchbasemock
	;;
couchbasemock)
	install
	jar=$("$here/couchbasemock.sh")
	run "${2:-*}" java -client -jar "$jar"
	;;
*) echo "usage: libcouchbase.sh install | run [FILTER] | couchbasemock [FILTER]" >&2; exit 2 ;;
esac
