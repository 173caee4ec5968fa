package mtest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

var demoPage = regexp.MustCompile(`(?m)^The status page: (http://\S+)$`)

// A visitor clones the repository, starts the demo, opens its page, plays a game day, and removes all of it.
func TestLabDemo_ShowsItsPageIsBrokenAndLeavesNothing(t *testing.T) {
	extra(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), storyLimit)
	defer cancel()
	clone, name := filepath.Join(t.TempDir(), "cke"), fmt.Sprint("cke-demo-", os.Getpid())
	listen, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	command := func(ctx context.Context, dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CKE_DEMO_NAME="+name, "CKE_DEMO_LISTEN="+listen)
		// The daemon of the demo outlives the command, and has its own log.
		out, err := cmd.CombinedOutput()
		t.Logf("$ %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	command(ctx, ".", "git", "clone", "-q", "--shared", "..", clone)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(clone, ".demo")); err == nil {
			command(context.WithoutCancel(ctx), clone, "make", "demo-down")
		}
	})

	found := demoPage.FindStringSubmatch(command(ctx, clone, "make", "demo"))
	if found == nil {
		t.Fatal("make demo prints no address of its page")
	}
	if page := pageAt(ctx, t, found[1]); !strings.Contains(page, "/clusters/demo") || !strings.Contains(page, "The cluster is healthy") {
		t.Errorf("%s is not the page of a healthy cluster:\n%s", found[1], page)
	}
	said := command(ctx, clone, "make", "gameday", "ARGS=--minutes 0.5 --seed 1")
	for _, want := range []string{"  break    ", "Verdict    PASSED", " acknowledged, 0 lost: "} {
		if !strings.Contains(said, want) {
			t.Errorf("make gameday does not print %q", want)
		}
	}

	command(ctx, clone, "make", "demo-down")
	if _, err := os.Stat(filepath.Join(clone, ".demo")); !os.IsNotExist(err) {
		t.Errorf("make demo-down leaves .demo: %v", err)
	}
	if c, err := net.Dial("tcp", listen); err == nil {
		c.Close()
		t.Error("make demo-down leaves the daemon")
	}
	labs, err := lab.Labs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range labs {
		if l.Name() == name {
			t.Error("make demo-down leaves the lab")
		}
	}
	for _, kind := range [][]string{{"ps", "-a"}, {"network", "ls"}} {
		if left := command(ctx, ".", append(append([]string{"docker"}, kind...), "-q", "--filter", "name="+name)...); left != "" {
			t.Errorf("make demo-down leaves in docker %s: %s", kind[0], left)
		}
	}
}

// pageAt returns a page.
func pageAt(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(page)
}
