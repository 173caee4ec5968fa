package main

import (
	"fmt"
	"strings"

	"cke"
	"cke/internal/term"
)

// containerTable shows what carries each member and where it is reached; nil when there is no member.
func containerTable(s cke.Status) *term.Table {
	t := term.NewTable("MEMBER", "CONTAINER", "STATE", "IMAGE", "IMAGE ID", "DESCRIPTION", "CPUS", "MEMORY", "CLIENT URL", "PEER URL")
	told := false
	for _, m := range s.Members {
		if m.ClientURL == "" && m.Container == nil {
			continue
		}
		told = true
		var c cke.MemberContainer
		if m.Container != nil {
			c = *m.Container
		}
		t.Add(term.Text(m.Name), term.Text(c.Name), term.Text(string(c.State)), term.Text(c.Image), term.Text(short(c.ImageID)), term.Text(short(c.Description)),
			term.Text(cpus(c)), term.Text(memory(c)), term.Text(m.ClientURL), term.Text(m.PeerURL))
	}
	if !told {
		return nil
	}
	return t
}

// short is the start of a digest, as docker shows it; -o json has all of it.
func short(digest string) string {
	_, hex, cut := strings.Cut(digest, ":")
	if !cut {
		hex = digest
	}
	return hex[:min(len(hex), 12)]
}

// cpus and memory are the limits of a container; a container that is not there has none to tell of.
func cpus(c cke.MemberContainer) string {
	if c.CPUs == 0 {
		return unlimited(c)
	}
	return fmt.Sprint(c.CPUs)
}

func memory(c cke.MemberContainer) string {
	if c.Memory == 0 {
		return unlimited(c)
	}
	return cke.Size(c.Memory).String()
}

func unlimited(c cke.MemberContainer) string {
	if c.Name == "" {
		return ""
	}
	return "no limit"
}
