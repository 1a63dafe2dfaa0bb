#!/usr/bin/env bash
# Resolves CouchbaseMock from Maven's repositories, with Maven's own configuration, and prints the path of its jar.
# The jar carries its dependencies. It lands in target/couchbasemock, which git ignores; a second run downloads nothing.
#
#   interop/couchbasemock.sh            print the path
#   interop/couchbasemock.sh run ARGS   start it with ARGS (java -jar JAR ARGS) in a network namespace of its own
#
# Its REST port binds every interface and no option changes that, so "run" refuses to start it anywhere else.
set -euo pipefail

version=1.5.27
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/target/couchbasemock
jar=$dir/CouchbaseMock-$version.jar

resolve() {
	[ -s "$jar" ] && return 0
	command -v mvn >/dev/null || { echo "couchbasemock.sh: mvn is missing (Debian: apt-get install maven)" >&2; return 1; }
	mkdir -p "$dir"
	local part
	part=$(mktemp -d "$dir/part.XXXXXX")
	# Into a directory of this run and moved at the end: two runs at once, or one that was stopped, leave no half jar.
	if ! mvn -q -B dependency:copy "-Dartifact=com.couchbase.mock:CouchbaseMock:$version" "-DoutputDirectory=$part" >&2; then
		rm -rf "$part"
		return 1
	fi
	mv -f "$part/CouchbaseMock-$version.jar" "$jar"
	rm -rf "$part"
}

resolve
case "${1:-path}" in
path) echo "$jar" ;;
run)
	shift
	command -v java >/dev/null || { echo "couchbasemock.sh: java is missing (Debian: apt-get install default-jre-headless)" >&2; exit 1; }
	exec unshare -rn sh -c 'ip link set lo up && exec java -jar "$@"' sh "$jar" "$@"
	;;
*) echo "usage: couchbasemock.sh [path | run ARGS]" >&2; exit 2 ;;
esac
