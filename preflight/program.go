package preflight

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// ownProgram is this program, which must need no library to run in any image.
func ownProgram() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("this ckecli does not run on nodes: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, errors.New("this ckecli was built to need libraries, which nodes may lack; build it with CGO_ENABLED=0")
		}
	}
	return os.ReadFile(path)
}
