#!/bin/sh
# Fails if the options break what users have written: compares proto/ with the
# last release or, until there is one, with the commit where this branch left
# main or, on main itself, the commit before.
set -eu
cd "$(dirname "$0")/../.."

commit() { git rev-parse --quiet --verify "$1^{commit}"; }

base=$(git describe --tags --abbrev=0 --match='v*' 2>/dev/null || true)
if [ -z "$base" ]; then
	base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)
	if [ -z "$base" ] || [ "$base" = "$(commit HEAD)" ]; then
		base=$(commit HEAD~1 || true)
	fi
fi
if [ -z "$base" ] || ! git cat-file -e "$base:proto" 2>/dev/null; then
	echo "buf breaking: nothing to compare with (first commit or shallow clone)"
	exit 0
fi

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" proto | tar -x -C "$old"
buf breaking proto --against "$old/proto" || {
	echo "buf breaking: the lines above break what $base has"
	exit 1
}
