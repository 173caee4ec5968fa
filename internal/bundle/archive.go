// Package bundle packs what is known of a cluster, without secrets, for support.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cke"
	"cke/internal/scrub"
)

// partLimit bounds the gathering of one part of a bundle.
const partLimit = 20 * time.Second

// Entry is a file of a bundle, or why it is not there.
type Entry struct {
	Name    string `json:"name"`
	Bytes   int    `json:"bytes"`
	Problem string `json:"problem,omitempty"`

	// Data is the scrubbed file.
	Data []byte `json:"-"`
}

// Part gathers some entries; Name names the entry that replaces them if it fails.
type Part struct {
	Name   string
	Gather func(ctx context.Context) ([]Entry, error)
}

// List is what `support-bundle` writes for programs, and the list in the bundle.
type List struct {
	File    string    `json:"file"`
	Cluster string    `json:"cluster"`
	MadeAt  time.Time `json:"madeAt"`
	MadeBy  string    `json:"madeBy"`
	Entries []Entry   `json:"entries"`
}

// Gather gathers all parts at the same time; a part that fails becomes an entry that says why.
func Gather(ctx context.Context, parts []Part) []Entry {
	results := make([][]Entry, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, partLimit)
			defer cancel()
			got, err := p.Gather(ctx)
			if err != nil {
				got = append(got, Entry{Name: p.Name, Problem: oneLine(err)})
			}
			results[i] = got
		})
	}
	wg.Wait()
	all := slices.Concat(results...)
	for i := range all {
		all[i].Bytes = len(all[i].Data)
	}
	return all
}

// oneLine is an error with its code, where it has one.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var coded *cke.Error
	if errors.As(err, &coded) && coded.Code != "" {
		text += " [" + string(coded.Code) + "]"
	}
	return text
}

// Pack makes a compressed archive of the entries and their list.
func Pack(base string, r List, s scrub.Scrubber) ([]byte, error) {
	for i := range r.Entries {
		r.Entries[i].Problem = string(s.Text([]byte(r.Entries[i].Problem)))
	}
	list, err := s.JSON(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	add := func(name string, data []byte) error {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(base, name), Mode: 0o600, Size: int64(len(data)), ModTime: r.MadeAt})
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(data))
		}
		return err
	}
	err = add("bundle.json", list)
	for _, e := range r.Entries {
		if err != nil {
			return nil, err
		}
		if e.Problem != "" {
			err = add(e.Name+".missing.txt", []byte(e.Problem+"\n"))
		} else {
			err = add(e.Name, e.Data)
		}
	}
	err = errors.Join(err, w.Close(), z.Close())
	return b.Bytes(), err
}
