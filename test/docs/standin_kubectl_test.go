//go:build manuals

package docs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The forms of what kubectl takes.
const (
	nameForm  = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	imageForm = `[a-z0-9./-]+:[a-zA-Z0-9.-]+`
	labelForm = `[a-zA-Z0-9./-]+=[a-zA-Z0-9._-]*`
)

// kubectl creates pods at the simulated runtime, and reads the manifests that are delivered.
func (s standIn) kubectl(args []string) error {
	got, rest, err := options(args, map[string]string{
		"--namespace": nameForm, "--image": imageForm, "--labels": labelForm + `(,` + labelForm + `)*`, "--command": "", "-k": `[a-zA-Z0-9./-]+`,
	})
	if err != nil {
		return err
	}
	namespace := got["--namespace"]
	delete(got, "--namespace")
	what := ""
	if len(rest) > 0 {
		what, rest = rest[0], rest[1:]
	}
	switch {
	case what == "create" && len(got) == 0 && namespace == "" && len(rest) == 2 && rest[0] == "namespace":
		return s.createNamespace(rest[1])
	case what == "run" && got["-k"] == "" && got["--image"] != "" && len(rest) > 2 && rest[1] == "--":
		return s.runPod(namespace, rest[0], got["--labels"])
	case what == "apply" && len(got) == 1 && got["-k"] != "" && namespace == "" && len(rest) == 0:
		return s.kustomization(filepath.Join(s.dir, got["-k"]))
	case what == "port-forward" && len(got) == 0 && len(rest) == 2:
		if namespace != s.deliveredNamespace() {
			return fmt.Errorf("no manifest has the namespace %q", namespace)
		}
		return s.metricsPort(rest[1])
	default:
		return fmt.Errorf("%q is nothing that the manuals may ask of kubectl", args)
	}
}

func (s standIn) createNamespace(name string) error {
	if !regexp.MustCompile(`\A` + nameForm + `\z`).MatchString(name) {
		return fmt.Errorf("%q is no name of a namespace", name)
	}
	if err := os.MkdirAll(filepath.Join(s.root, "namespaces"), 0o755); err != nil {
		return err
	}
	return os.Mkdir(filepath.Join(s.root, "namespaces", name), 0o755)
}

func (s standIn) runPod(namespace, name, labels string) error {
	if namespace == "" {
		namespace = "default"
	} else if _, err := os.Stat(filepath.Join(s.root, "namespaces", namespace)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no namespace %q", namespace)
	}
	if !regexp.MustCompile(`\A` + nameForm + `\z`).MatchString(name) {
		return fmt.Errorf("%q is no name of a pod", name)
	}
	words := []string{namespace + "/" + name + "/" + name}
	if labels != "" {
		words = append(words, strings.Split(labels, ",")...)
	}
	if _, err := s.ask(request{askPod, strings.Join(words, " ")}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "pod/%s created\n", name)
	return err
}

// deliveredNamespace is that of the manifests; "" if they have none.
func (s standIn) deliveredNamespace() string {
	text, err := os.ReadFile(filepath.Join(s.repo, "deploy/kubernetes/kustomization.yaml"))
	if err != nil {
		return ""
	}
	var k struct {
		Namespace string `yaml:"namespace"`
	}
	if yaml.Unmarshal(text, &k) != nil {
		return ""
	}
	return k.Namespace
}

// kustomization reads all that a folder's kustomization names.
func (s standIn) kustomization(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return err
	}
	var k struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Namespace  string `yaml:"namespace"`
		Resources  []string
		ConfigMaps []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
		Images []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&k); err != nil {
		return fmt.Errorf("kustomization.yaml: %w", err)
	}
	if k.Kind != "Kustomization" || len(k.Resources) == 0 {
		return fmt.Errorf("kustomization.yaml is a %q with the resources %q", k.Kind, k.Resources)
	}
	var all []byte
	for _, name := range k.Resources {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := objects(text, s.out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, text...)
	}
	for _, m := range k.ConfigMaps {
		if !strings.Contains(string(all), "configMap: {name: "+m.Name+"}") {
			return fmt.Errorf("no object mounts the config map %q", m.Name)
		}
		for _, name := range m.Files {
			if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, i := range k.Images {
		if !strings.Contains(string(all), "image: "+i.Name+"\n") {
			return fmt.Errorf("no container has the image %q", i.Name)
		}
	}
	return nil
}

// objects reads the objects of a manifest.
func objects(text []byte, out io.Writer) error {
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Name string }
		}
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"Namespace v1", "DaemonSet apps/v1"}, o.Kind+" "+o.APIVersion) || o.Metadata.Name == "" {
			return fmt.Errorf("%s %s %q is no object that is delivered", o.APIVersion, o.Kind, o.Metadata.Name)
		}
		if _, err := fmt.Fprintf(out, "%s/%s configured\n", strings.ToLower(o.Kind), o.Metadata.Name); err != nil {
			return err
		}
	}
}
