#!/usr/bin/env bash
# Builds what the end-to-end tests need into .cache/e2e, once: containerd, its shim, ctr and runc from pinned modules, and an image made of Debian's busybox-static.
# A missing Debian package is installed. Usage: prepare.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../.cache/e2e}
mkdir -p "$out/bin"
out=$(cd "$out" && pwd)
# Two runs at once build one after the other.
exec 9>"$out/lock"
flock 9

stage() { printf 'e2e: %s (%d s)\n' "$1" "$SECONDS"; }

stamp=$(cat "$here"/components/go.sum "$here"/components/go.mod "$here"/prepare.sh "$here"/../../deploy/image/main.go | sha256sum | cut -c1-16)
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi
if ! dpkg -s busybox-static >/dev/null 2>&1; then
	stage 'installing busybox-static'
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends busybox-static </dev/null >/dev/null || {
		apt-get update -qq </dev/null
		apt-get install -y -qq --no-install-recommends busybox-static </dev/null >/dev/null
	}
fi
cd "$here/components"
stage 'building containerd, its shim and ctr'
CGO_ENABLED=0 go build -o "$out/bin/" -trimpath -ldflags '-s -w' -tags 'no_btrfs no_devmapper no_zfs' github.com/containerd/containerd/v2/cmd/containerd \
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 github.com/containerd/containerd/v2/cmd/ctr
stage 'building runc'
CGO_ENABLED=1 go build -o "$out/bin/" -trimpath github.com/opencontainers/runc
stage 'writing the image'
links=()
for name in sh sleep env cat ls true id grep; do links+=("/bin/$name=busybox"); done
go run -C "$here/../.." ./deploy/image -out "$out/image.tar" -name localhost/pause:1 -name localhost/busybox:1 -cmd /bin/sleep -cmd 1000000 \
	/bin/busybox:/bin/busybox "${links[@]}" /dev/ /etc/ /proc/ /sys/ /tmp/ /var/
echo "$stamp" >"$out/stamp"
stage 'components built'
