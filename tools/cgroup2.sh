#!/usr/bin/env bash
# Runs the tests of test/isolation in a guest whose only cgroup hierarchy is v2 with all controllers: Debian's cloud kernel, and the test binary as
# init. What it needs of Debian (the emulator, cpio, the kernel) it installs, or downloads into bin/cgroup2.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly work=bin/cgroup2

missing() {
	command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
	command -v cpio >/dev/null || echo cpio
}
mapfile -t packages < <(missing)
if [ ${#packages[@]} -gt 0 ]; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null || {
		apt-get update -qq </dev/null
		apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null
	}
fi

mkdir -p "$work"
if ! compgen -G "$work/boot/vmlinuz-*" >/dev/null; then
	apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -qq </dev/null
	kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
	(cd "$work" && apt-get download -qq "$kernel" </dev/null && dpkg -x "$kernel"_*.deb . && rm -rf "$kernel"_*.deb lib)
fi
vmlinuz=$(compgen -G "$work/boot/vmlinuz-*" | tail -1)

root=$work/root
rm -rf "$root"
mkdir -p "$root"/{proc,sys,dev,tmp,run,etc,bin,usr,var/lib,var/tmp,root}
echo guest >"$root/etc/hostname"
CGO_ENABLED=0 go test -buildvcs=false -tags root -c -o "$root/init" ./test/isolation
(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initrd"

# The pattern is what the guest can do: it has no shell, no sleep(1) and no network.
log=$work/log
timeout --kill-after=5s 120s qemu-system-x86_64 -accel tcg -m 768 -smp 2 -nographic -no-reboot -kernel "$vmlinuz" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=-1 isolation.test=1" </dev/null >"$log" 2>&1 || { tail -50 "$log"; echo "the guest did not end in order" >&2; exit 1; }
tr -d '\r' <"$log" | grep -E '^(=== |--- |    --- |PASS|FAIL|ok|guest:| +[a-z_0-9]+_test\.go)' || true
tr -d '\r' <"$log" | grep -q '^guest: exit code 0$' || { tail -50 "$log"; echo 'the tests in the guest failed' >&2; exit 1; }
