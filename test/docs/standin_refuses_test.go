//go:build manuals

package docs_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// installed is a stand-in on a node where the unit and the release are there.
func installed(t *testing.T, asked *[]string) standIn {
	t.Helper()
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	s := standIn{root: harness.TempDir(t), repo: repo, path: os.Getenv("PATH"), out: io.Discard}
	s.dir = filepath.Join(s.root, "checkout")
	if err := copyTree(repo, s.dir); err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile(filepath.Join(repo, "deploy/systemd/nri-supervisor.service"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"etc/systemd/system/nri-supervisor.service": string(unit), "usr/local/bin/nri-supervisor": "#!/bin/sh\n", "namespaces/web-shop/x": "",
		"checkout/dist/nri-supervisor-image-amd64.tar": "image", "checkout/half/kustomization.yaml": "kind: Kustomization\nresources: [gone.yaml]\n",
	} {
		path := filepath.Join(s.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.ask = func(q request) (string, error) {
		*asked = append(*asked, string(q.Verb)+" "+q.Arg)
		return "", nil
	}
	return s
}

func TestAStandInDoesWhatIsDeliveredAndRefusesAllElse(t *testing.T) {
	t.Parallel()
	var asked []string
	s := installed(t, &asked)
	for _, tt := range []struct {
		command string
		want    string // asked of the test; "-" nothing, "" refused
	}{
		{"systemctl daemon-reload", "-"},
		{"systemctl enable --now nri-supervisor", "service nri-supervisor run --config /etc/nri-supervisor/config.yaml"},
		{"systemctl enable --now nri-supervisord", ""},
		{"systemctl enable nri-supervisor", ""},
		{"systemctl restart nri-supervisor", ""},
		{"kubectl create namespace web-cafe", "-"},
		{"kubectl create namespace web-shop", ""},
		{"kubectl create namespace Web", ""},
		{"kubectl --namespace web-shop run front --image=busybox:1 --labels=greet=yes --command -- sleep 3600", "pod web-shop/front/front greet=yes"},
		{"kubectl run other --image=busybox:1 --command -- sleep 3600", "pod default/other/other"},
		{"kubectl --namespace web-gone run front --image=busybox:1 -- sleep 3600", ""},
		{"kubectl run front --image=busybox -- sleep 3600", ""},
		{"kubectl run front --image=busybox:1 --label=greet=yes -- sleep 3600", ""},
		{"kubectl run front --image=busybox:1 --labels=greet -- sleep 3600", ""},
		{"kubectl apply -k deploy/kubernetes", "-"},
		{"kubectl apply -k deploy", ""},
		{"kubectl apply -k half", ""},
		{"kubectl apply -f deploy/kubernetes", ""},
		{"kubectl get pods", ""},
		{"kubectl --namespace nri-supervisor port-forward POD 9464", "-"},
		{"kubectl --namespace nri-supervisor port-forward POD 9465", ""},
		{"kubectl --namespace kube-system port-forward POD 9464", ""},
		{"ssh -L 9464:127.0.0.1:9464 NODE", "-"},
		{"ssh -L 9464:127.0.0.1:9100 NODE", ""},
		{"ssh NODE", ""},
		{"ctr -n k8s.io images import dist/nri-supervisor-image-amd64.tar", "-"},
		{"ctr -n k8s.io images import dist/nri-supervisor-image-arm64.tar", ""},
		{"ctr -n moby images import dist/nri-supervisor-image-amd64.tar", ""},
		{"ctr images pull nri-supervisor", ""},
		{"skopeo copy oci-archive:dist/nri-supervisor-image-amd64.tar:localhost/nri-supervisor:dev docker://registry.example.com/nri-supervisor:dev", "-"},
		{"skopeo copy oci-archive:dist/nri-supervisor-image-amd64.tar:localhost/nri-supervisor:new docker://registry.example.com/nri-supervisor:dev", ""},
		{"skopeo copy oci-archive:dist/gone.tar:localhost/nri-supervisor:dev docker://registry.example.com/nri-supervisor:dev", ""},
		{"make bench-gate", "-"},
		{"make everything", ""},
		{"make", ""},
		{"go run ./test/bench -only events -rounds 3", "-"},
		{"go run ./test/bench -only no-such-part", ""},
		{"go run ./test/bench -rounds many", ""},
		{"go run ./test/bench -fast yes", ""},
		{"go run ./test/gone", ""},
		{"curl -s 127.0.0.1:9465/readyz", ""},
		{"curl -s example.com/readyz", ""},
		{"curl -O 127.0.0.1:9464/readyz", ""},
	} {
		words := strings.Fields(tt.command)
		asked = nil
		err := standIns()[words[0]](s, words[1:])
		got := strings.Join(append(asked, map[bool]string{true: "-"}[len(asked) == 0]), "")
		if (err == nil) != (tt.want != "") || err == nil && got != tt.want {
			t.Errorf("%s: asked for %q, %v; want %q", tt.command, got, err, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(s.root, "etc/systemd/system/nri-supervisor.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.systemctl([]string{"enable", "--now", "nri-supervisor"}); err == nil {
		t.Error("a unit that is not the delivered one is started")
	}
}
