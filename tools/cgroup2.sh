#!/usr/bin/env bash
# Runs a test binary in a guest whose only cgroup hierarchy is v2 with all controllers: Debian's cloud kernel, and the test binary as init.
#
#   cgroup2.sh prepare           installs what it needs of Debian (the emulator, cpio), and downloads the kernel into .cache/cgroup2; nothing else is fetched
#   cgroup2.sh run BINARY ARG... runs it; for go test -exec
set -euo pipefail
readonly work=$(cd "$(dirname "$0")/.." && pwd)/.cache/cgroup2
# The guest takes half a minute on an idle machine.
readonly bound=${CGROUP2_BOUND:-220s}

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

prepare() {
	if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ]; then
		echo 'test-cgroup2: it needs Debian or a derivative of it on amd64, for a kernel and an emulator' >&2
		exit 1
	fi
	mapfile -t packages < <(missing)
	if [ ${#packages[@]} -gt 0 ]; then
		apt install -y --no-install-recommends "${packages[@]}"
	fi
	mkdir -p "$work"
	if compgen -G "$work/boot/vmlinuz-*" >/dev/null; then
		return
	fi
	apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -qq </dev/null >/dev/null
	kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ && !n++ {print $2}')
	fresh=$(mktemp -d "$work/kernel.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	(cd "$fresh" && apt download "$kernel" 2>/dev/null && dpkg -x ./*.deb .)
	# Only when it is whole, so that an interrupted download is begun again.
	rm -rf "$work/boot" && mv "$fresh/boot" "$work/boot"
}

# guest boots the kernel and shows what the tests print; what firmware and kernel print as well is in the log only.
guest() {
	timeout --kill-after=5s "$bound" qemu-system-x86_64 -accel tcg -m 1536 -smp 2 -nographic -no-reboot -kernel "$vmlinuz" -initrd "$work/initrd" \
		-append "console=ttyS0 quiet panic=-1" </dev/null 2>&1 | tr -d '\r' | tee "$work/log" |
		sed -u -n '/guest: tests$/,$p' | grep --line-buffered -v -e 'guest: ' -e '^\[ *[0-9.]*\] ' || true
}

run() {
	vmlinuz=$(compgen -G "$work/boot/vmlinuz-*" | tail -1)
	root=$work/root
	rm -rf "$root"
	mkdir -p "$root"/{proc,sys,dev,tmp,run,etc,bin,usr,var/lib,var/tmp,root}
	echo guest >"$root/etc/hostname"
	install -m 755 "$1" "$root/init"
	shift
	printf '%s\n' "$@" >"$root/etc/test-args"
	(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initrd"
	guest
	if ! grep '^guest: exit code 0$' "$work/log" >/dev/null; then
		grep 'guest: exit code' "$work/log" >/dev/null || tail -30 "$work/log" >&2
		echo "test-cgroup2: the tests in the guest failed, or it did not end in order within $bound" >&2
		exit 1
	fi
}

"$@"
