#!/usr/bin/env bash
# Compares the benchmarks beside the code with those of the last release, by benchstat. It reports and never fails for a
# difference.
#
#   bench/compare.sh                      all packages, against the last release's tag (or the commit before this one)
#   bench/compare.sh REF ./kv ./memd      against REF, these packages
#
# COUNT (6) is how often each benchmark runs, BENCHTIME (200ms) for how long, BENCH (.) which ones run.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-$(git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD~1)}
shift || true
packages=("${@:-./...}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/tree"
git archive "$base" | tar -x -C "$work/tree"

measure() {
	go test -run '^$' -bench "${BENCH:-.}" -benchmem -count "${COUNT:-6}" -benchtime "${BENCHTIME:-200ms}" "${packages[@]}"
}

echo "measuring $base" >&2
# A package that the base lacks has nothing to be compared with.
(cd "$work/tree" && measure >"$work/base") || echo "not everything of $base could be measured" >&2
echo "measuring the work tree" >&2
measure >"$work/new"
go tool -modfile=tools/go.mod benchstat "base=$work/base" "new=$work/new"
