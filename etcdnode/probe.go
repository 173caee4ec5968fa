package etcdnode

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ProbeProgram is the name of the program that observes a node from inside. It is installed beside cke and ckecli.
const ProbeProgram = "cke-probe"

// ReadProbe reads the probe beside this program. It must need no library, to run in any image.
func ReadProbe() ([]byte, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(own), ProbeProgram)
	f, err := elf.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing; install it from the build that this program is from", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not run on nodes: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is linked to libraries that nodes may not have; build it with CGO_ENABLED=0", path)
		}
	}
	return os.ReadFile(path)
}
