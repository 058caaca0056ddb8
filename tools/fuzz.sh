#!/usr/bin/env bash
# Runs each fuzz target of the module for the given time, one after the other: go test fuzzes one target of one package at a time.
# A target without seeds, or whose seeds do not pass, fails.
# usage: fuzz.sh TIME, for example fuzz.sh 10s
set -euo pipefail
time=${1:?"usage: fuzz.sh TIME, for example fuzz.sh 10s"}
cd "$(dirname "$0")/.."

count=0
while IFS=: read -r file line; do
	name=$(sed -E 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/' <<<"$line")
	package=./$(dirname "$file")
	printf '%s in %s for %s\n' "$name" "$package" "$time"
	seeds=$(go test -buildvcs=false -v -run="^$name\$" "$package" | grep -c "^    --- PASS: $name/" || true)
	if [ "$seeds" -eq 0 ]; then
		printf 'fuzz: %s in %s passes without a single seed; add one with f.Add or in testdata/fuzz\n' "$name" "$package" >&2
		exit 1
	fi
	go test -buildvcs=false -run='^$' -fuzzminimizetime=10x -fuzz="^$name\$" -fuzztime="$time" "$package"
	count=$((count + 1))
done < <(git ls-files -z --cached --others --exclude-standard '*_test.go' | xargs -0 -r grep -HE '^func Fuzz[A-Za-z0-9_]*\(' || true)

if [ "$count" -eq 0 ]; then
	echo 'fuzz: no target found; a pattern or the list of files is wrong' >&2
	exit 1
fi
printf 'fuzz: %d targets, nothing found\n' "$count"
