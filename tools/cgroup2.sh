#!/usr/bin/env bash
# Runs the tests of test/isolation in a guest whose only cgroup hierarchy is v2 with all controllers: Debian's cloud kernel, and the test binary as
# init. What it needs of Debian it installs (the emulator, cpio), or downloads into .cache/cgroup2 (the kernel); nothing else is fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly work=.cache/cgroup2
# The guest takes some ten seconds on an idle machine. The tests in it end themselves after 200 s.
readonly bound=300s

if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ]; then
	echo 'test-cgroup2: it needs Debian or a derivative of it on amd64, for a kernel and an emulator' >&2
	exit 1
fi

# apt does something, with fresh package lists if the machine has none or too old ones.
apt() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq -o Acquire::Retries=3 "$@" </dev/null >/dev/null || {
		apt-get -qq -o Acquire::Retries=3 update </dev/null >/dev/null
		apt-get -qq -o Acquire::Retries=3 "$@" </dev/null >/dev/null
	}
}

missing() {
	command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
	command -v cpio >/dev/null || echo cpio
}
mapfile -t packages < <(missing)
if [ ${#packages[@]} -gt 0 ]; then
	apt install -y --no-install-recommends "${packages[@]}"
fi

mkdir -p "$work"
if ! compgen -G "$work/boot/vmlinuz-*" >/dev/null; then
	apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -qq </dev/null >/dev/null
	kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ && !n++ {print $2}')
	fresh=$(mktemp -d "$work/kernel.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	(cd "$fresh" && apt download "$kernel" 2>/dev/null && dpkg -x ./*.deb .)
	# Only when it is whole, so that an interrupted download is begun again.
	rm -rf "$work/boot" && mv "$fresh/boot" "$work/boot"
fi
vmlinuz=$(compgen -G "$work/boot/vmlinuz-*" | tail -1)

root=$work/root
rm -rf "$root"
mkdir -p "$root"/{proc,sys,dev,tmp,run,etc,bin,usr,var/lib,var/tmp,root}
echo guest >"$root/etc/hostname"
CGO_ENABLED=0 go test -buildvcs=false -tags root -c -o "$root/init" ./test/isolation
(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initrd"

log=$work/log
failed() {
	tail -50 "$log"
	echo "test-cgroup2: $1" >&2
	exit 1
}
timeout --kill-after=5s "$bound" qemu-system-x86_64 -accel tcg -m 768 -smp 2 -nographic -no-reboot -kernel "$vmlinuz" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=-1 isolation.test=1" </dev/null >"$log" 2>&1 || failed "the guest did not end in order within $bound"
tr -d '\r' <"$log" | grep -E '^(=== |--- |    --- |PASS|FAIL|ok|guest:| +[a-z_0-9]+_test\.go)' || true
tr -d '\r' <"$log" | grep '^guest: exit code 0$' >/dev/null || failed 'the tests in the guest failed'
