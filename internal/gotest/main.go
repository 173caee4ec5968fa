// Command gotest runs `go test -json` and prints what `go test` prints: one line for each package, and the output of what
// failed. It exits with the code of the command. With -times it also notes how long each test took, and with -slowest it
// lists the slowest of all that several runs noted in that file. The Makefile uses it.
//
//	gotest -times FILE go test -json ./...
//	gotest -times FILE -slowest 10
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	times := flag.String("times", "", "append the time of each test to this file, or read it with -slowest")
	slowest := flag.Int("slowest", 0, "list this many of the slowest tests in the file, and run nothing")
	flag.Parse()
	code, err := 0, error(nil)
	if *slowest > 0 {
		err = list(os.Stdout, *times, *slowest)
	} else {
		code, err = run(os.Stdout, *times, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs a command that prints the events of tests, and returns its exit code.
func run(w io.Writer, times string, command []string) (code int, err error) {
	if len(command) < 2 || !slices.Contains(command, "-json") {
		return 2, fmt.Errorf("want a command such as: go test -json ./..., not %q", command)
	}
	// An interrupt reaches the command as well, which then ends by itself; its last output must not be lost.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	p := newPrinter(w)
	readErr := p.read(out)
	_, _ = io.Copy(io.Discard, out) // the command must not wait for a reader
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = max(exit.ExitCode(), 1), nil
	}
	p.summary()
	if times != "" {
		err = errors.Join(err, note(times, p.taken))
	}
	return code, errors.Join(err, readErr)
}
