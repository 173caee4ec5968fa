package main

import (
	"strings"
	"testing"

	"cke"
)

// repairs is the repair queue as it is stored.
func (h *house) repairs() cke.Queue {
	h.t.Helper()
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	return asked.Repairs
}

func TestRepairQueue_AddFindsTheProcedure(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitRefused, "repair-queue", "add", "cp1")
	contains(t, stderr, "error[CKE111]: the cluster file of prod does not say how machines are repaired\nNothing was changed.\n")
	set := func(procedures string) {
		t.Helper()
		h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+"repair: {procedures: ["+procedures+"]}\n"))
	}
	dead := "{on: dead, steps: [{command: power-cycle}]}"
	set(dead)
	h.run(exitDone, "repair-queue", "add", "cp1")
	set(dead + ", {on: slow, steps: [{command: power-cycle}]}, {on: wet, types: [big], steps: [{command: dry}]}")
	for _, row := range []struct{ args, says string }{
		{"cp2", "it is not known what is to be repaired on cp2"},
		{"cp2 --on wet", `no procedure repairs "wet" on cp2`},
		{"cp2 --on flood", "Try: ckecli repair-queue add cp2 --on dead|slow\n"},
		{"cp9 --on dead", "cluster prod declares no node cp9"},
		{"cp2 cp1 --on dead", "error[CKE103]: cp1 is in the repair queue already (queued)\n"},
	} {
		_, stderr := h.run(exitRefused, append([]string{"repair-queue", "add"}, strings.Fields(row.args)...)...)
		contains(t, stderr, row.says)
	}
	contains(t, must1(h.run(exitDone, "repair-queue", "add", "cp2", "--on", "slow", "--reason", "ticket 1")), "prod: 1 node added; 2 in the repair queue\n")
	q := h.repairs()
	if len(q.Entries) != 2 || q.Entries[0].On != "dead" || q.Entries[1].On != "slow" || q.Entries[1].Reason != "ticket 1" || q.Entries[1].By == "" || len(h.reboots().Entries) > 0 {
		t.Errorf("%+v", q)
	}
	lines := strings.Split(must1(h.run(exitDone, "repair-queue", "list")), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NODE STATE SINCE ON STEP ATTEMPT WAITS FOR" {
		t.Error(got)
	}
	contains(t, lines[2], "cp2", "slow", "no daemon leads the cluster")
	_, stderr = h.run(exitRefused, "repair-queue", "cancel", "cp3")
	contains(t, stderr, "error[CKE111]: cp3 is not in the repair queue\n", "Try: ckecli repair-queue list\n")
	contains(t, must1(h.run(exitDone, "repair-queue", "disable")), "prod: the repair queue is disabled\n")
	contains(t, must1(h.run(exitDone, "repair-queue", "cancel", "--all")), "prod: cp1, cp2: canceled\n")
	contains(t, must1(h.run(exitFailed, "repair-queue", "wait", "cp1")), "prod: cp1: canceled\n")
}

// What is to be repaired is decided for all nodes together: that of the first one is not taken for the others.
func TestRepairQueue_AddDecidesForAllNodes(t *testing.T) {
	h := declared(t)
	file := strings.Replace(clusterFile, "hostname: cp2", "hostname: cp2, labels: {machine-type: big}", 1)
	if file == clusterFile {
		t.Fatal("no label was added")
	}
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", file+"repair: {procedures: [{on: dead, steps: [{command: power-cycle}]}, {on: wet, types: [big], steps: [{command: dry}]}]}\n"))
	for _, nodes := range [][]string{{"cp1", "cp2"}, {"cp2", "cp1"}} {
		_, stderr := h.run(exitRefused, append([]string{"repair-queue", "add"}, nodes...)...)
		contains(t, stderr, "it is not known what is to be repaired on "+nodes[0])
	}
	h.run(exitDone, "repair-queue", "add", "cp1", "cp3")
	if q := h.repairs(); len(q.Entries) != 2 || q.Entries[0].On != "dead" || q.Entries[1].On != "dead" {
		t.Errorf("%+v", q)
	}
}
