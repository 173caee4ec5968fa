package main

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"cke"
)

// survivors are nodes with the container of a survivor, whose data cannot be read.
type survivors struct {
	started time.Time
	gone    bool
}

func (s *survivors) Machine(cke.Node) cke.Machine { return survivor{of: s} }

type survivor struct {
	cke.Machine
	of *survivors
}

func (s survivor) Container(context.Context, cke.Join) (cke.Container, error) {
	if s.of.gone {
		return cke.Container{}, cke.ErrNotFound
	}
	return cke.Container{State: cke.ContainerExited, StartedAt: s.of.started}, nil
}

var errReads = errors.New("reads the data")

func (survivor) SaveData(context.Context, cke.Join, io.Writer) error { return errReads }

// What was copied of a survivor is taken again for as long as that did not run since, and when nothing newer can be had.
func TestRecover_CopiesASurvivorThatRanSinceOnceMore(t *testing.T) {
	store, _ := externalStore(t)
	declare(t, store, "prod")
	then := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	j := &cke.Join{ID: "s", Node: cke.Node{Hostname: "n1", Address: "127.0.0.101"}}
	for name, c := range map[string]struct {
		nodes survivors
		join  *cke.Join
		about string
		again bool
	}{
		"as it was":                    {survivors{started: then}, j, `{"revision":7,"size":0,"digest":"","ran":"2026-01-02T03:04:05.000000006Z"}`, false},
		"started since":                {survivors{started: then.Add(time.Nanosecond)}, j, `{"revision":7,"size":0,"digest":"","ran":"2026-01-02T03:04:05.000000006Z"}`, true},
		"copied by an earlier version": {survivors{started: then}, j, `{"revision":7,"size":0,"digest":""}`, true},
		"gone":                         {survivors{gone: true}, j, `{"revision":7,"size":0,"digest":"","ran":"2026-01-02T03:04:05.000000006Z"}`, false},
		"to the nodes":                 {survivors{}, nil, `{"revision":7,"size":0,"digest":"","ran":"2026-01-02T03:04:05.000000006Z"}`, false},
	} {
		s := &snapshots{store: store, cluster: "prod", dir: t.TempDir(), nodes: &c.nodes}
		for file, data := range map[string]string{s.file("t1"): "", s.about("t1"): c.about} {
			if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Fetch(t.Context(), "t1", cke.RestoreOrder{Survivor: "n1"}, c.join, func(string) {})
		if c.again != errors.Is(err, errReads) || !c.again && (err != nil || got.Revision != 7) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
