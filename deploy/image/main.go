// Command image writes a container image as an OCI layout in a tar file: FROM scratch, one layer with the given files, without a registry, a daemon or a network.
// The same input gives the same bytes. The file can be imported by `ctr images import`, `podman load`, `skopeo copy oci-archive:…` and the like.
//
//	image -out image.tar -name localhost/tool:1 -entrypoint /tool ./tool:/tool /bin/sh=/tool /tmp/
//
// Each argument is SOURCE:DESTINATION, a file; DESTINATION/ alone, an empty folder; or LINK=TARGET, a symbolic link.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// image is what the flags say.
type image struct {
	names, entrypoint, cmd, labels list
	arch, out                      string
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds one.
func (l *list) Set(v string) error {
	*l = append(*l, v)
	return nil
}

func run(args []string, stderr io.Writer) error {
	im := image{}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&im.out, "out", "", "the file to write")
	flags.StringVar(&im.arch, "arch", runtime.GOARCH, "the architecture, as Go names it")
	flags.Var(&im.names, "name", "a name of the image; may be repeated")
	flags.Var(&im.entrypoint, "entrypoint", "the program; repeat it for arguments")
	flags.Var(&im.cmd, "cmd", "the default arguments; may be repeated")
	flags.Var(&im.labels, "label", "KEY=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if im.out == "" || len(im.names) == 0 || flags.NArg() == 0 {
		return errors.New("usage: image -out FILE -name NAME [-entrypoint PROGRAM] SOURCE:DESTINATION…")
	}
	layer, err := rootfs(flags.Args())
	if err != nil {
		return err
	}
	data, err := im.layout(layer)
	if err != nil {
		return err
	}
	return os.WriteFile(im.out, data, 0o644) //nolint:gosec // an image is no secret
}

// descriptor points to a blob: https://github.com/opencontainers/image-spec/blob/v1.1.0/descriptor.md
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// blobs are files by digest.
type blobs map[string][]byte

func (b blobs) add(mediaType string, data []byte) descriptor {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	b[digest] = data
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(data)}
}

func (b blobs) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return b.add(mediaType, data), err
}

// layout is the tar file: oci-layout, index.json and the blobs.
func (im image) layout(layer []byte) ([]byte, error) {
	all := blobs{}
	layerAt := all.add("application/vnd.oci.image.layer.v1.tar", layer)
	labels := map[string]string{}
	for _, l := range im.labels {
		key, value, _ := strings.Cut(l, "=")
		labels[key] = value
	}
	config, err := all.addJSON("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": im.arch, "os": "linux",
		"config": map[string]any{"Entrypoint": im.entrypoint, "Cmd": im.cmd, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "Labels": labels},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerAt.Digest}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := all.addJSON("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{layerAt},
	})
	if err != nil {
		return nil, err
	}
	manifest.Platform = &platform{im.arch, "linux"}
	var manifests []descriptor
	for _, name := range im.names {
		m := manifest
		m.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
		manifests = append(manifests, m)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
	if err != nil {
		return nil, err
	}
	w := newArchive()
	w.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	w.file("index.json", 0o644, index)
	digests := []string{}
	for d := range all {
		digests = append(digests, d)
	}
	slices.Sort(digests)
	for _, d := range digests {
		w.file("blobs/sha256/"+strings.TrimPrefix(d, "sha256:"), 0o644, all[d])
	}
	return w.close()
}

// rootfs is the layer.
func rootfs(entries []string) ([]byte, error) {
	w := newArchive()
	for _, e := range entries {
		source, destination, isFile := strings.Cut(e, ":")
		link, target, isLink := strings.Cut(e, "=")
		switch {
		case isFile:
			data, err := os.ReadFile(source)
			if err != nil {
				return nil, err
			}
			w.folders(path.Dir(destination))
			w.file(strings.TrimPrefix(destination, "/"), 0o755, data)
		case isLink:
			w.folders(path.Dir(link))
			w.header(&tar.Header{Name: strings.TrimPrefix(link, "/"), Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777})
		case strings.HasSuffix(e, "/"):
			w.folders(path.Clean(e))
		default:
			return nil, fmt.Errorf("entry %q: write SOURCE:DESTINATION, LINK=TARGET, or FOLDER/", e)
		}
	}
	return w.close()
}

// archive writes a tar file without anything of this machine in it. The first error stays.
type archive struct {
	buf  bytes.Buffer
	tar  *tar.Writer
	seen map[string]bool
	err  error
}

func newArchive() *archive {
	a := &archive{seen: map[string]bool{"": true, ".": true}}
	a.tar = tar.NewWriter(&a.buf)
	return a
}

func (a *archive) header(h *tar.Header) {
	h.ModTime = time.Unix(0, 0)
	if a.err == nil {
		a.err = a.tar.WriteHeader(h)
	}
}

func (a *archive) file(name string, mode int64, data []byte) {
	a.header(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(data))})
	if a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

// folders makes a folder and those above it, each once.
func (a *archive) folders(name string) {
	name = strings.Trim(name, "/")
	if a.seen[name] {
		return
	}
	a.folders(path.Dir(name))
	a.seen[name] = true
	a.header(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755})
}

func (a *archive) close() ([]byte, error) {
	if a.err == nil {
		a.err = a.tar.Close()
	}
	return a.buf.Bytes(), a.err
}
