package lab

import (
	"context"
	"fmt"
)

// The ballast lies beside the engine's files on the node's disk.
const (
	fillScript = `: >>/disk/ballast
# Large pieces first: the space is taken, not written.
for size in 1G 64M 1M 4K; do
	while fallocate -o "$(stat -c %s /disk/ballast)" -l $size /disk/ballast 2>/dev/null; do :; done
done
sync -f /disk/ballast`
	freeScript = `rm -f /disk/ballast; sync -f /disk`
)

// FillDisk fills a running node's disk to the last block, so that every further write fails with "no space left on
// device". What is there stays. errUnbounded: the node has no disk of its own to fill.
func (l *Lab) FillDisk(ctx context.Context, node string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	if n.Disk == 0 {
		return fmt.Errorf("%w: %s was made with --disk none", errUnbounded, n.Name)
	}
	_, err = l.Exec(ctx, n.Name, "bash", "-c", fillScript)
	return err
}

// FreeDisk undoes FillDisk, on a running node. A disk that is not filled is left alone.
func (l *Lab) FreeDisk(ctx context.Context, node string) error {
	_, err := l.Exec(ctx, node, "sh", "-c", freeScript)
	return err
}
