// Command sbom prints the bill of materials of built programs, as CycloneDX in JSON: the programs with their digests, and
// the modules that Go linked into them. The same programs give the same text. packaging/packages.sh uses it.
//
//	SOURCE_DATE_EPOCH=SECONDS sbom -version VERSION PROGRAM…
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the programs")
	flag.Parse()
	if err := write(os.Stdout, *version, os.Getenv("SOURCE_DATE_EPOCH"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bom is the part of CycloneDX 1.6 that is used. Source: https://cyclonedx.org/docs/1.6/json/.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// write prints the bill of materials of programs that are released as one product.
func write(w io.Writer, version, epoch string, programs []string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || version == "" || len(programs) == 0 {
		return fmt.Errorf("want SOURCE_DATE_EPOCH as seconds, -version and programs; got %q, %q and %q", epoch, version, programs)
	}
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{
		Timestamp: time.Unix(seconds, 0).UTC().Format(time.RFC3339),
		Component: component{Type: "application", Name: "cke", Version: version},
	}}
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		program, err := describe(path, version)
		if err != nil {
			return err
		}
		b.Components = append(append(b.Components, program, standardLibrary(info)), modules(info)...)
	}
	slices.SortFunc(b.Components, func(a, b component) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	b.Components = slices.CompactFunc(b.Components, func(a, b component) bool {
		return a.Type == b.Type && a.Name == b.Name && a.Version == b.Version
	})
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(b)
}

// describe returns a program with the digest of its file.
func describe(path, version string) (component, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return component{}, err
	}
	sum := sha256.Sum256(data)
	return component{Type: "application", Name: filepath.Base(path), Version: version, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}, nil
}

func standardLibrary(info *debug.BuildInfo) component {
	version := strings.TrimPrefix(info.GoVersion, "go")
	return component{Type: "library", Name: "std", Version: version, PURL: "pkg:golang/std@" + version}
}

// modules returns what was linked, each with the checksum that go.sum has of it.
func modules(info *debug.BuildInfo) (all []component) {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")}
		if m.Sum != "" {
			c.Properties = []property{{"go.sum", m.Sum}}
		}
		all = append(all, c)
	}
	return all
}
