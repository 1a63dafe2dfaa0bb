#!/usr/bin/env bash
# Starts memcached as an oracle for framing and SCRAM: binary protocol only, on loopback, with one user when SASL is on.
#
#   interop/memcached.sh PORT                    no login
#   interop/memcached.sh PORT USER PASSWORD      PLAIN and SCRAM-SHA-1, -256, -512
#
# It stays in the foreground until it is stopped, and removes its SASL directory then.
set -euo pipefail

[ $# -eq 1 ] || [ $# -eq 3 ] || { echo "usage: memcached.sh PORT [USER PASSWORD]" >&2; exit 2; }
port=$1
command -v memcached >/dev/null || { echo "memcached.sh: memcached is missing (Debian: apt-get install memcached)" >&2; exit 1; }

args=(-B binary -l 127.0.0.1 -p "$port" -m 32 -t 1)
# Started as root it wants another user, who must be able to read the SASL directory.
[ "$(id -u)" -ne 0 ] || args+=(-u nobody)
if [ $# -eq 1 ]; then
	exec memcached "${args[@]}"
fi

command -v saslpasswd2 >/dev/null || { echo "memcached.sh: saslpasswd2 is missing (Debian: apt-get install sasl2-bin libsasl2-modules)" >&2; exit 1; }
dir=$(mktemp -d)
printf 'mech_list: plain scram-sha-1 scram-sha-256 scram-sha-512\nsasldb_path: %s/sasldb2\n' "$dir" >"$dir/memcached.conf"
printf '%s' "$3" | saslpasswd2 -p -c -a memcached -f "$dir/sasldb2" "$2"
chmod 755 "$dir"
chmod 644 "$dir"/*
SASL_CONF_PATH=$dir memcached -S "${args[@]}" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true' INT TERM
wait "$pid" || true
rm -rf "$dir"
