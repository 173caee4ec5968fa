package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/docker/docker/client"
)

// errNoDocker is returned by everything that needs the local Docker engine while it does not answer.
var errNoDocker = errors.New("the Docker engine does not answer")

// pingLimit bounds how long the local engine may take to answer at all.
const pingLimit = 10 * time.Second

// connect returns a client of the local engine that has answered once.
func connect(ctx context.Context) (*client.Client, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDocker, err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if _, err := c.Ping(ctx); err != nil {
		c.Close()
		remedy := "start it (systemctl start docker), or say where it is with DOCKER_HOST"
		if errors.Is(err, os.ErrPermission) {
			remedy = "join the group docker, or run as root"
		}
		return nil, fmt.Errorf("%w on %s: %s", errNoDocker, c.DaemonHost(), remedy)
	}
	return c, nil
}
