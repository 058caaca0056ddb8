// Package deploy checks what is delivered: the release binaries and images, the systemd unit and the Kubernetes manifests. Its tests need what `make release` builds and have the build
// tag deploy; `make deploy` runs them. The program in the folder image writes the images, also those of the end-to-end tests.
package deploy
