package probe

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadBoot_OfAProcessWithAnyName(t *testing.T) {
	proc := t.TempDir()
	for file, text := range map[string]string{
		"sys/kernel/random/boot_id": "9a1f0c6e-7a46-4c4c-93a7-3c2f0d7b0a11\n",
		"1/stat":                    "1 (init (x) y) S 0 1 1 0 -1 4194560 28 0 0 0 5 6 0 0 20 0 1 0 4711 12 13\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(proc, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := ReadBoot(proc)
	if err != nil || b != (Boot{Kernel: "9a1f0c6e-7a46-4c4c-93a7-3c2f0d7b0a11", Init: "4711"}) {
		t.Errorf("%+v, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(proc, "1/stat"), []byte("1 (init) S 0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBoot(proc); err == nil {
		t.Error("half a stat is evidence")
	}
}

func TestReadBoot_OfThisMachine(t *testing.T) {
	a, err := ReadBoot("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := ReadBoot("/proc"); err != nil || a != b || a.Kernel == "" || a.Init == "" {
		t.Errorf("%+v, then %+v, %v", a, b, err)
	}
}
