#!/usr/bin/env bash
# Builds what is released into dist/: a static binary and a container image for each architecture, and the man pages, with checksums. Needs Go and nothing else, no registry and no daemon.
# Usage: release.sh VERSION
set -euo pipefail
version=${1:?usage: release.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
dist=$root/dist
mkdir -p "$dist"
cd "$root"
for arch in amd64 arm64; do
	binary=$dist/nri-supervisor-linux-$arch
	GOOS=linux GOARCH=$arch CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$version" -o "$binary" ./cmd/nri-supervisor
	go run ./deploy/image -arch "$arch" -out "$dist/nri-supervisor-image-$arch.tar" -name "localhost/nri-supervisor:$version" -name localhost/nri-supervisor:dev \
		-label "org.opencontainers.image.version=$version" -entrypoint /usr/local/bin/nri-supervisor -cmd run \
		"$binary:/usr/local/bin/nri-supervisor" /etc/nri-supervisor/ /etc/nri-supervisor-plugins.d/ /opt/nri-supervisor/ /run/nri-supervisor/ /var/lib/nri-supervisor/ /var/run/nri/ /tmp/
done
# The same bytes whoever packs them, and whenever.
tar -C "$root/deploy/man" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 -cf - -- $(cd "$root/deploy/man" && ls) | gzip -9n >"$dist/nri-supervisor-man.tar.gz"
cd "$dist"
sha256sum nri-supervisor-* >SHA256SUMS
ls -l
