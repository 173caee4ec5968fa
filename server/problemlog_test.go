package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cke"
)

func TestProblemLog_LogsEachChangeOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "since" {
			return slog.Attr{}
		}
		return a
	}}))
	now := time.Date(2026, 5, 2, 3, 10, 44, 0, time.UTC)
	var p problemLog
	refuses := func(node, message string) cke.Problem {
		return cke.Problem{Code: cke.CodeSSHAuth, Node: node, Message: message, Remedy: "set the key"}
	}
	for i, step := range []struct {
		problems []cke.Problem
		want     []string
	}{
		{nil, nil},
		{[]cke.Problem{refuses("cp1", "refused"), refuses("cp2", "refused")}, []string{
			`level=WARN msg=problem code=CKE202 node=cp1 message=refused remedy="set the key"`,
			`level=WARN msg=problem code=CKE202 node=cp2 message=refused remedy="set the key"`}},
		{[]cke.Problem{refuses("cp1", "refused"), refuses("cp2", "refused")}, nil},
		{[]cke.Problem{refuses("cp1", "refused 17 times"), refuses("cp2", "refused")}, []string{
			`level=WARN msg="problem changed" code=CKE202 node=cp1 message="refused 17 times" remedy="set the key"`}},
		{[]cke.Problem{refuses("cp1", "refused 18 times"), refuses("cp2", "refused")}, nil},
		{[]cke.Problem{refuses("cp1", "refused 18 times")}, []string{`level=INFO msg="problem resolved" code=CKE202 node=cp2 was=refused`}},
		{[]cke.Problem{refuses("cp1", "refused 18 times"), refuses("cp2", "refused")}, []string{
			`level=WARN msg=problem code=CKE202 node=cp2 message=refused remedy="set the key"`}},
	} {
		out.Reset()
		p.update(log, step.problems, now.Add(time.Duration(i)*time.Second))
		if got := strings.TrimSpace(out.String()); got != strings.Join(step.want, "\n") {
			t.Errorf("step %d logs\n%s\nwant\n%s", i, got, strings.Join(step.want, "\n"))
		}
	}
}

// A problem that comes and goes with each probe, and a thousand of them, do not fill the disk; the last state is logged.
func TestProblemLog_IsBounded(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	now := time.Date(2026, 5, 2, 3, 10, 44, 0, time.UTC)
	var p problemLog
	problem := []cke.Problem{{Code: cke.CodeUnreachable, Node: "cp1", Message: "gone"}}
	for i := range 600 { // ten minutes
		p.update(log, problem[:i%2], now.Add(time.Duration(i)*time.Second))
	}
	if n := strings.Count(out.String(), "\n"); n < 10 || n > 10*problemLines {
		t.Errorf("%d lines in ten minutes", n)
	}
	out.Reset()
	p.update(log, nil, now.Add(time.Hour))
	p.update(log, nil, now.Add(2*time.Hour))
	if len(p.logged) != 0 || strings.Count(out.String(), "\n") > 1 {
		t.Errorf("%v is still remembered; %s", p.logged, out.String())
	}
	var many []cke.Problem
	for i := range 1000 {
		many = append(many, cke.Problem{Code: cke.CodeUnreachable, Node: fmt.Sprint("cp", i), Message: "gone"})
	}
	out.Reset()
	p.update(log, many, now)
	if n := strings.Count(out.String(), "\n"); n != maxLogged {
		t.Errorf("%d lines", n)
	}
}
