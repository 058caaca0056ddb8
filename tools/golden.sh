#!/usr/bin/env bash
# Writes the golden files of all packages that have some anew, by running their tests with -update.
# Never in CI: there a difference is a failure, not a wish.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${CI:-}" = true ]; then
	echo 'golden: CI compares golden files and never writes them; run it on your machine' >&2
	exit 1
fi

packages=$(git ls-files -z --cached --others --exclude-standard '*_test.go' | xargs -0 -r grep -lE 'flag\.Bool\("update"' | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
if [ -z "$packages" ]; then
	echo 'golden: no package has a -update flag'
	exit 0
fi
# shellcheck disable=SC2086 # a list of packages
go test -buildvcs=false -count=1 $packages -args -update
git status --short -- '*testdata*' docs
