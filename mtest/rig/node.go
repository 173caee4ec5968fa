package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cke/mtest/lab"
)

// Scripts for a node that carries one member.
const (
	KillEtcd        = "pkill -KILL -x etcd"
	RemoveContainer = "docker rm -f $(docker ps -q)"
)

// Carried returns what the engine of a node carries: containers with their state, and volumes without marks, one a
// line.
func Carried(ctx context.Context, l *lab.Lab, node string) (string, error) {
	return l.Exec(ctx, node, "sh", "-c", `docker ps -a --no-trunc --format 'container {{.Names}} {{.ID}} {{.State}}' | sort; docker volume ls -q | grep -v '^cke-over[.]' | sort | sed 's/^/volume /'`)
}

// Lines returns the lines of text with this prefix.
func Lines(text, prefix string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// Volume returns the name of the volume of the only member on a node, which is also that of its container.
func Volume(ctx context.Context, l *lab.Lab, node string) (string, error) {
	has, err := Carried(ctx, l, node)
	if err != nil {
		return "", err
	}
	volumes := slices.DeleteFunc(Lines(has, "volume "), func(line string) bool {
		return len(Lines(has, "container "+strings.TrimPrefix(line, "volume ")+" ")) == 0 // of a membership that ended
	})
	if len(volumes) != 1 {
		return "", fmt.Errorf("members' volumes on %s: %v", node, volumes)
	}
	return strings.TrimPrefix(volumes[0], "volume "), nil
}

// DataDir returns the data directory of the member with this volume, as its node sees it.
func DataDir(volume string) string {
	return fmt.Sprintf("/var/lib/docker/volumes/%s/_data/data", volume)
}

// Empty removes the data directory of the member on a node and kills etcd, which the engine starts again at once.
func Empty(ctx context.Context, l *lab.Lab, node string) error {
	volume, err := Volume(ctx, l, node)
	if err != nil {
		return err
	}
	_, err = l.Exec(ctx, node, "sh", "-c", fmt.Sprintf("rm -rf %s; %s", DataDir(volume), KillEtcd))
	return err
}
