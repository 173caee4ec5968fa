package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Boot is the evidence of which boot of the machine runs.
type Boot struct {
	// Kernel is the kernel's id of the boot.
	Kernel string `json:"kernel"`
	// Init is when process 1 was started, in ticks of the kernel. In a container it is that of the machine only if both share
	// their processes.
	Init string `json:"init"`
}

// startField is the place of the start of a process in its stat, behind its name, which may have spaces and brackets.
const startField = 19

// ReadBoot reads the evidence below a directory with the kernel's view of processes, which is /proc.
func ReadBoot(proc string) (Boot, error) {
	id, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return Boot{}, err
	}
	stat, err := os.ReadFile(filepath.Join(proc, "1/stat"))
	if err != nil {
		return Boot{}, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= startField {
		return Boot{}, fmt.Errorf("%s has %d fields", filepath.Join(proc, "1/stat"), len(fields))
	}
	return Boot{Kernel: strings.TrimSpace(string(id)), Init: fields[startField]}, nil
}
