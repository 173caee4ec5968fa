package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestWrite_ListsProgramsAndWhatIsLinkedOnceAndTheSameEachTime(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for b, programs := range map[*bytes.Buffer][]string{&first: {self, copied}, &second: {copied, self}} {
		if err := write(b, "1.2.3", "1700000000", programs); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Errorf("%s\nand\n%s", &first, &second)
	}
	var b bom
	if err := json.Unmarshal(first.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range b.Components {
		text := c.Type + " " + c.Name + " " + c.Version
		for _, h := range c.Hashes {
			text += " " + h.Content
		}
		got = append(got, text)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	want := []string{"application copied 1.2.3 " + sum, "application " + filepath.Base(self) + " 1.2.3 " + sum, "library std " + strings.TrimPrefix(runtime.Version(), "go")}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || b.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("%s\n%q", &first, got)
	}
}

func TestModules_ArePackagesOfGoWithTheirSums(t *testing.T) {
	got := modules(&debug.BuildInfo{Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0+incompatible", Sum: "h1:x="},
		{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v2.0.0"}},
	}})
	if want := "[{library example.com/a v1.0.0+incompatible pkg:golang/example.com/a@v1.0.0%2Bincompatible [] [{go.sum h1:x=}]} " +
		"{library example.com/c v2.0.0 pkg:golang/example.com/c@v2.0.0 [] []}]"; fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}

func TestWrite_NeedsATimeAVersionAndPrograms(t *testing.T) {
	for _, tt := range []struct {
		version, epoch string
		programs       []string
	}{
		{"", "1", []string{os.Args[0]}}, {"1", "", []string{os.Args[0]}}, {"1", "today", []string{os.Args[0]}}, {"1", "1", nil}, {"1", "1", []string{"main.go"}},
	} {
		var out bytes.Buffer
		if err := write(&out, tt.version, tt.epoch, tt.programs); err == nil || out.Len() > 0 {
			t.Errorf("%+v: %v, %s", tt, err, &out)
		}
	}
}
