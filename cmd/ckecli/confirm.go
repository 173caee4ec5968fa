package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"cke"
)

// interactive reports whether a user can be asked.
func (a *app) interactive() bool { return a.terminal(a.stdin) && a.terminal(a.stderr) }

// notConfirmed is the refusal of what needs confirmation; how says how to give it on the command line.
func notConfirmed(what, how string) error {
	return &cke.Error{Code: cke.CodeConfirm, What: what + " was not confirmed", Unchanged: true, Try: how}
}

// confirmYes asks a question that only "y" or "yes" answers.
func (a *app) confirmYes(ctx context.Context, what, question, how string) error {
	if !a.interactive() {
		return notConfirmed(what, how)
	}
	answer, err := a.ask(ctx, question+" [y/N] ")
	if err != nil {
		return err
	}
	if answer := strings.ToLower(answer); answer != "y" && answer != "yes" {
		return notConfirmed(what, how)
	}
	return nil
}

// confirmName asks for the name of what is destroyed.
func (a *app) confirmName(ctx context.Context, what, name, given, how string) error {
	switch {
	case given == name:
		return nil
	case given != "":
		return &cke.Error{Code: cke.CodeConfirm, What: fmt.Sprintf("%s: --confirm says %s, not %s", what, given, name), Unchanged: true, Try: how}
	case !a.interactive():
		return notConfirmed(what, how)
	}
	answer, err := a.ask(ctx, "Type "+name+" to confirm: ")
	if err != nil {
		return err
	}
	if answer != name {
		return notConfirmed(what, how)
	}
	return nil
}

// ask reads one line. Ctrl-C and --timeout end the waiting; the reading then ends with the process.
func (a *app) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(a.stderr, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n') // no line is no confirmation
		answer <- strings.TrimSpace(line)
	}()
	select {
	case line := <-answer:
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return "", ctx.Err()
	}
}
