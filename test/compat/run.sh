#!/usr/bin/env bash
# Runs the compatibility test with each version of NRI, and compares the table that they measured with the one in docs/compatibility.md; --update writes it there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
(cd "$root" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$tmp/bin/" ./cmd/nri-supervisor ./plugins/env-injector)
{
	echo '| NRI of the runtime | attempts to register | events subscribed | beyond those of 0.8 | time for a request, as told |'
	echo '|---|---|---|---|---|'
} >"$tmp/table"
for version in nri08 nri09 nri010 nri011 nri012; do
	cd "$here/$version"
	began=$SECONDS
	# Without the wasm engine, where the version can be built without: nothing here needs it.
	COMPAT_BIN=$tmp/bin COMPAT_ROW=$tmp/row COMPAT_VERSION=$(go list -m -f '{{.Version}}' github.com/containerd/nri) \
		go test -buildvcs=false -tags nri_no_wasm -count=1 -timeout 5m .
	cat "$tmp/row" >>"$tmp/table"
	echo "compat: $version: $((SECONDS - began)) s"
done
doc=$root/docs/compatibility.md
if [ "${1:-}" = --update ]; then
	sed -i -e '/<!-- measured:begin -->/,/<!-- measured:end -->/{/<!-- measured:/!d}' -e "/<!-- measured:begin -->/r $tmp/table" "$doc"
fi
if ! diff -u <(sed -n '/<!-- measured:begin -->/,/<!-- measured:end -->/{/<!-- measured:/!p}' "$doc") "$tmp/table"; then
	echo 'compat: docs/compatibility.md does not say what was measured; write it anew: bash test/compat/run.sh --update' >&2
	exit 1
fi
