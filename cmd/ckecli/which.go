package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"

	"cke"
)

// theCluster returns the name of the cluster that a command is about: the one chosen with --cluster, or the only one.
func (a *app) theCluster(ctx context.Context, s specs) (string, error) {
	if a.cluster != "" {
		return a.cluster, nil
	}
	names, err := s.Clusters(ctx)
	if err != nil {
		return "", err
	}
	return onlyCluster(names)
}

func onlyCluster(names []string) (string, error) {
	switch len(names) {
	case 0:
		return "", &cke.Error{Code: cke.CodeCluster, What: "there is no cluster yet", Unchanged: true, Try: "ckecli cluster set FILE"}
	case 1:
		return names[0], nil
	}
	return "", &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("there are %d clusters and none was chosen", len(names)),
		Facts: []string{strings.Join(names, ", ")}, Unchanged: true, Try: "name one with --cluster, or in CKECLI_CLUSTER"}
}

// whoami is the person at the keyboard, as user@host. With sudo it is the one who called it.
func (a *app) whoami() string {
	name := a.getenv("SUDO_USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, _ := os.Hostname()
	return name + "@" + host
}
