package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of build-output
	Elapsed                       float64
}

// printer turns events into what users read.
type printer struct {
	w io.Writer
	// output is what a test, or a package under the name "", printed so far.
	output map[string]map[string][]string
	ended  map[string]bool // by package and test
	failed []string
	taken  []taken
	parts  map[string]taken // by package and top-level test, its slowest subtest
}

func newPrinter(w io.Writer) *printer {
	return &printer{w: w, output: map[string]map[string][]string{}, ended: map[string]bool{}, parts: map[string]taken{}}
}

func (p *printer) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil || e.Action == "":
			fmt.Fprint(p.w, line)
		default:
			p.take(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (p *printer) take(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(p.w, e.Output)
	case "output":
		if p.output[e.Package] == nil {
			p.output[e.Package] = map[string][]string{}
		}
		if !strings.HasPrefix(e.Output, "=== ") { // === RUN, === PAUSE, …
			p.output[e.Package][e.Test] = append(p.output[e.Package][e.Test], e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.endOfPackage(e)
		} else {
			p.endOfTest(e)
		}
	}
}

func (p *printer) endOfTest(e event) {
	if e.Action == "fail" {
		p.print(e.Package, e.Test)
		p.failed = append(p.failed, e.Package+" "+e.Test)
	}
	delete(p.output[e.Package], e.Test)
	p.ended[e.Package+" "+e.Test] = true
	top, part, is := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	t := taken{Seconds: e.Elapsed, Package: e.Package, Test: top}
	if !is {
		t.Part, t.PartSeconds = p.parts[key].Part, p.parts[key].PartSeconds
		p.taken = append(p.taken, t)
		return
	}
	if e.Elapsed > p.parts[key].PartSeconds {
		p.parts[key] = taken{Part: part, PartSeconds: e.Elapsed}
	}
}

// endOfPackage prints the line of a package. If it failed, first what no test was blamed for: the output of tests that were
// cut off by the time limit, and of TestMain.
func (p *printer) endOfPackage(e event) {
	all := p.output[e.Package]
	if e.Action == "fail" {
		for _, test := range slices.Sorted(maps.Keys(all)) {
			if test == "" {
				continue
			}
			p.print(e.Package, test)
			if !p.ended[e.Package+" "+test] { // go test counts what TestMain prints as that of the last test
				p.failed = append(p.failed, e.Package+" "+test+" (did not end)")
			}
		}
		p.print(e.Package, "")
		if len(all) == 0 {
			fmt.Fprintf(p.w, "FAIL\t%s\n", e.Package)
		}
	} else if last := all[""]; len(last) > 0 { // as go test: of a package that passed its last line alone
		fmt.Fprint(p.w, last[len(last)-1])
	}
	delete(p.output, e.Package)
}

func (p *printer) print(pkg, test string) {
	for _, line := range p.output[pkg][test] {
		fmt.Fprint(p.w, line)
	}
}

// summary repeats the names of what failed, which may stand far above.
func (p *printer) summary() {
	if len(p.failed) == 0 {
		return
	}
	fmt.Fprintln(p.w, "\nFailed:")
	for _, f := range p.failed {
		fmt.Fprintln(p.w, "  "+f)
	}
}
