#!/usr/bin/env bash
# Builds what the end-to-end tests need into .cache/e2e, once: containerd, its shim, ctr and runc from pinned modules, and an image made of Debian's busybox-static.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../.cache/e2e}
mkdir -p "$out/bin"
out=$(cd "$out" && pwd)
stamp=$(cat "$here"/components/go.sum "$here"/components/go.mod "$here"/prepare.sh "$here"/image/main.go | sha256sum | cut -c1-16)
if [ -f "$out/stamp" ] && [ "$(cat "$out/stamp")" = "$stamp" ]; then
  exit 0
fi
if ! [ -x /bin/busybox ] || ! file -L /bin/busybox 2>/dev/null | grep -q static; then
  if ! dpkg -s busybox-static >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq busybox-static >/dev/null
  fi
fi
cd "$here/components"
tags="no_btrfs no_devmapper no_zfs"
go build -o "$out/bin/" -trimpath -tags "$tags" github.com/containerd/containerd/v2/cmd/containerd github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
  github.com/containerd/containerd/v2/cmd/ctr
CGO_ENABLED=1 go build -o "$out/bin/" -trimpath github.com/opencontainers/runc
cd "$here"
go run ./image /bin/busybox "$out/image.tar" localhost/pause:1 localhost/busybox:1
echo "$stamp" >"$out/stamp"
