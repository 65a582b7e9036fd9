#!/bin/sh
# Puts a redis-server into .bin/ for the tests: a link to the machine's own or,
# on Debian and its like, one that is installed here. Silent and instant once
# the link is there. Never fails: tests say themselves what they lack.
set -eu
cd "$(dirname "$0")/../.."

link=$PWD/.bin/redis-server
[ ! -x "$link" ] || exit 0

# The binary acts as what it is called by, and Debian's package redis-tools has
# it as redis-check-rdb. The package redis-server adds a link of the right
# name, and a service on port 6379 that nobody asked for.
found() {
	server=$(command -v redis-server || command -v redis-check-rdb || command -v valkey-server) &&
		mkdir -p .bin && ln -sf "$server" "$link" && "$link" --version >/dev/null
}

! found || exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
apt_get() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1; }

if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
	echo "Installing redis-server, by the package redis-tools."
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	# Lists of packages may be missing or old: fetched only if need be.
	apt_get install -y --no-install-recommends redis-tools ||
		{ apt_get update && apt_get install -y --no-install-recommends redis-tools; } ||
		tail -n 5 "$log"
	! found || exit 0
fi
rm -f "$link"
echo "No redis-server here, and none could be installed: the tests that need one are skipped, in CI they fail."
echo "To have it: apt-get install redis-tools, dnf install redis, apk add redis, or brew install redis."
