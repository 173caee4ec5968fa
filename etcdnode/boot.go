package etcdnode

import (
	"context"
	"encoding/json"
	"fmt"

	"cke"
)

// bootTask is the argument with which the probe reports which boot of its machine runs.
const bootTask = "boot"

// Boot implements cke.Machine. The helper sees the processes of the machine, of which process 1 was started by this boot.
func (m machine) Boot(ctx context.Context, image string) (cke.Boot, error) {
	read := m.fleet.config.Program
	if read == nil {
		read = ReadProbe
	}
	program, err := read()
	if err != nil {
		return cke.Boot{}, err
	}
	out, err := m.fleet.Visit(ctx, m.node, Visit{Image: image, Program: program, Args: []string{bootTask}, Processes: true}, func(context.Context) error { return nil })
	if err != nil {
		return cke.Boot{}, err
	}
	var b cke.Boot
	if err := json.Unmarshal(out, &b); err != nil || b.Kernel == "" || b.Init == "" {
		return cke.Boot{}, fmt.Errorf("the probe on %s answered %q and did not report the boot", m.node.Name(), shorten(string(out), lastWordsLength))
	}
	return b, nil
}
