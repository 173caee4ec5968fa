package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cke/internal/golden"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ckecli": patientMain})
}

// hasty is the variable that makes ckecli wait for the store no longer than it does for people.
const hasty = "HASTY"

// patientMain is main for a machine of any speed.
func patientMain() {
	open := openPatiently
	if os.Getenv(hasty) != "" {
		open = openStore
	}
	os.Exit(run(open))
}

// TestScripts runs ckecli as a process of its own, as scripts and people do, beside an empty store.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *golden.Update,
		Setup: func(e *testscript.Env) error {
			h := newHouse(e.T().(testing.TB))
			e.Setenv("CKECLI_CONFIG", h.config)
			e.Setenv("HOUSE", h.dir)
			e.Setenv("HOME", e.WorkDir)
			e.Values["house"] = h
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "stored": stored},
	})
}

// exits CODE COMMAND…: the command ends with this exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d; stderr: %s", got, want, ts.ReadFile("stderr"))
	}
}

// stored CLUSTER: waits until the cluster is in the store.
func stored(ts *testscript.TestScript, _ bool, args []string) {
	h := ts.Value("house").(*house)
	for state := range h.store.WatchCluster(h.ctx(), args[0]) {
		if state.Spec.Generation > 0 {
			return
		}
	}
	ts.Fatalf("%s was not stored", args[0])
}

// TestSet_StoresWithinTheBlinkOfAnEye bounds what a person waits for before the work begins, process start included.
func TestSet_StoresWithinTheBlinkOfAnEye(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures time")
	}
	h := newHouse(t)
	file := h.write("cluster.yml", clusterFile)
	program := h.dir + "/ckecli"
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	least := time.Hour
	for range 5 {
		set := exec.Command(program, "--config", h.config, "cluster", "set", "--no-wait", file)
		set.Stderr = os.Stderr
		began := time.Now()
		if err := set.Run(); err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Since(began))
	}
	t.Logf("stored %s after the start", least)
	if least > 400*time.Millisecond { // 40 ms where nothing else runs
		t.Errorf("stored %s after the start", least)
	}
}
