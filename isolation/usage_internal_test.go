package isolation

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryInUseLeavesOutWhatTheKernelWouldGiveBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, current, stat string
		want                uint64
	}{
		{"v2", "1000\n", "anon 300\ninactive_file 400\nactive_file 300\n", 600},
		{"no statistics", "1000\n", "", 1000},
		{"more given back than used, as between two reads", "1000\n", "inactive_file 4000\n", 0},
		{"gone", "", "", 0},
		{"nonsense", "max\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			leaf := &cgroupLeaf{memory: filepath.Join(dir, "memory.current"), memoryStat: filepath.Join(dir, "memory.stat"), inactive: "inactive_file"}
			for file, text := range map[string]string{leaf.memory: c.current, leaf.memoryStat: c.stat} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := leaf.usage(); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
	if got := (*cgroupLeaf)(nil).usage() + (&cgroupLeaf{}).usage(); got != 0 {
		t.Errorf("%d bytes without a cgroup that counts", got)
	}
}
