// Package sim is a world in memory: nodes with Docker engines, etcd members with logs and quorums, a store with
// terms, and daemons that reach them through the ports of package cke. What it shows of itself, and how it fails,
// follows what the real things do; what a node can do wrong, it does when told to.
//
// Tests drive it with a Scheduler, which lets one port call through at a time and may kill the daemon at any of
// them. Without a Scheduler calls happen at once, as `ckecli plan` wants it.
package sim
