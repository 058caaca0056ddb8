#!/usr/bin/env bash
# Puts Debian's prometheus and promtool into .cache/prometheus, without installing the package: its service must not start.
# Prints the folder. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$PWD/.cache/prometheus
if [ ! -x "$dir/promtool" ] || [ ! -x "$dir/prometheus" ]; then
	rm -rf "$dir" "$dir.new"
	mkdir -p "$dir.new"
	(
		cd "$dir.new"
		apt-get download -qq prometheus >&2 || {
			apt-get update -qq >&2
			apt-get download -qq prometheus >&2
		}
		dpkg -x prometheus_*.deb package
		mv package/usr/bin/prometheus package/usr/bin/promtool .
		rm -rf package prometheus_*.deb
	)
	mv "$dir.new" "$dir"
fi
echo "$dir"
