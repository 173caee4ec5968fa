package etcdnode

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"cke"
)

// carriesVisits lets the engine make the container of a visit. It takes no files.
func carriesVisits(node *fakeNode) {
	node.engine.answer("GET /volumes", "{}")
	node.engine.answer("GET /images/etcd:v3/json", "{}")
	node.engine.answer("POST /containers/create", `{"Id":"visit"}`)
}

// visitInVain makes a visit that must not come as far as to start its program, and returns why.
func visitInVain(t *testing.T, node *fakeNode) error {
	t.Helper()
	f := fleetOf(t, newMemoryHostKeys(), nil, node)
	_, err := f.Visit(t.Context(), node.node, Visit{Image: "etcd:v3", Program: []byte("program")}, func(context.Context) error {
		t.Error("it was started")
		return nil
	})
	return err
}

func TestVisit_NeedsTheImageAndRemovesWhatAKilledOneLeft(t *testing.T) {
	node := newFakeNode(t, "127.0.19.1", "ed25519", "ed25519")
	node.engine.answer("GET /containers/json", fmt.Sprintf(`[{"Id":"left","Names":["/cke-preflight-1"],"Created":%d},{"Id":"busy","Names":["/cke-preflight-2"],"Created":%d}]`,
		time.Now().Add(-time.Hour).Unix(), time.Now().Unix()))
	node.engine.answer("DELETE /containers/left", "")
	node.engine.answer("GET /volumes", fmt.Sprintf(`{"Volumes":[{"Name":"lost","CreatedAt":%q},{"Name":"new","CreatedAt":%q}]}`,
		time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Format(time.RFC3339)))
	node.engine.answer("DELETE /volumes/lost", "")
	err := visitInVain(t, node)
	if cke.CodeOf(err) != cke.CodeImage {
		t.Error(err)
	}
	if e := node.engine; e.asked("DELETE /containers/left") != 1 || e.asked("DELETE /containers/busy") != 0 ||
		e.asked("DELETE /volumes/lost") != 1 || e.asked("DELETE /volumes/new") != 0 || e.asked("POST /containers/create") != 0 {
		t.Errorf("asked %v", e.calls())
	}
}

// The clock of a node may be wrong: what another visit does there now is not left.
func TestVisit_LeavesOthersAloneWhereTheClockIsBehind(t *testing.T) {
	node := newFakeNode(t, "127.0.19.7", "ed25519", "ed25519")
	now := time.Now().Add(-time.Hour)
	node.engine.date = func() time.Time { return now }
	node.engine.answer("GET /containers/json", fmt.Sprintf(`[{"Id":"busy","Names":["/cke-preflight-1"],"Created":%d}]`, now.Add(-10*time.Second).Unix()))
	node.engine.answer("DELETE /containers/busy", "")
	node.engine.answer("GET /volumes", fmt.Sprintf(`{"Volumes":[{"Name":"new","CreatedAt":%q}]}`, now.Add(-10*time.Second).Format(time.RFC3339)))
	node.engine.answer("DELETE /volumes/new", "")
	if err := visitInVain(t, node); cke.CodeOf(err) != cke.CodeImage {
		t.Error(err)
	}
	if e := node.engine; e.asked("DELETE /containers/busy")+e.asked("DELETE /volumes/new") > 0 {
		t.Errorf("asked %v", e.calls())
	}
}

func TestVisit_RemovesItsContainerWhenTheProgramCannotBePutIntoIt(t *testing.T) {
	node := newFakeNode(t, "127.0.19.2", "ed25519", "ed25519")
	carriesVisits(node)
	err := visitInVain(t, node)
	if !errors.Is(err, cke.ErrNotFound) { // the fake engine takes no files
		t.Error(err)
	}
	if e := node.engine; e.asked("PUT /containers/"+visitPrefix) != 1 || e.asked("DELETE /containers/"+visitPrefix) != 1 {
		t.Errorf("asked %v", e.calls())
	}
}

// A node that is too busy to answer loses its connection in the middle of a visit.
func TestVisit_RemovesItsContainerFromANodeThatIsBack(t *testing.T) {
	node := newFakeNode(t, "127.0.19.3", "ed25519", "ed25519")
	carriesVisits(node)
	node.engine.heard = func(request string) {
		if strings.HasPrefix(request, "PUT ") {
			node.stop()
			time.AfterFunc(time.Second, node.restart)
		}
	}
	err := visitInVain(t, node)
	if !Unanswered(err) || strings.Contains(err.Error(), "<nil>") {
		t.Error(err)
	}
	if e := node.engine; e.asked("DELETE /containers/"+visitPrefix) != 1 {
		t.Errorf("asked %v", e.calls())
	}
}

func TestProgramTar_IsAnArchiveOfTheProgram(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513} {
		program := bytes.Repeat([]byte("x"), size)
		r, err := programTar(program)
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(r)
		h, err := archive.Next()
		if err != nil || h.Name != "cke-preflight" || h.Mode != 0o755 {
			t.Fatalf("%+v %v", h, err)
		}
		if got, err := io.ReadAll(archive); err != nil || !bytes.Equal(got, program) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
		if _, err := archive.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestTail_KeepsTheEnd(t *testing.T) {
	for _, most := range []int{1, 3, 10, 100} {
		kept := &tail{most: most}
		text := "one two three four five"
		for i := range text {
			fmt.Fprint(kept, text[i:i+1])
		}
		if got, want := string(kept.end()), text[max(len(text)-most, 0):]; got != want {
			t.Errorf("%d: %q, want %q", most, got, want)
		}
	}
}
