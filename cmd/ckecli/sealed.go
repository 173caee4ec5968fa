package main

import (
	"errors"
	"fmt"

	"cke"
)

// inScope is what is sealed for the cluster of --cluster, and for all clusters; without --cluster it is everything. of
// returns the cluster that one is for, and its name for -o name.
func inScope[T any](a *app, infos []T, of func(T) (cluster, name string)) (all []T, names []string) {
	all, names = []T{}, []string{}
	for _, i := range infos {
		cluster, name := of(i)
		if a.clusterFlag == "" || cluster == "" || cluster == a.clusterFlag {
			all, names = append(all, i), append(names, name)
		}
	}
	return all, names
}

// deletedSecret reports how a deletion ended; none is what is said where there was nothing to delete.
func (a *app) deletedSecret(err error, none *cke.Error, done string) error {
	var coded *cke.Error
	switch {
	case err == nil:
		fmt.Fprintln(a.stderr, done)
	case errors.Is(err, cke.ErrNotFound) && !errors.As(err, &coded):
		return none
	}
	return err
}
