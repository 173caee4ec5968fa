// Package sim is a world in memory: nodes with Docker engines, etcd members with logs and quorums, a store with
// terms, and daemons that reach them through the ports of package cke. It answers and fails as the real nodes, engines and
// members do, and a test can make a node do anything that a real node can do wrong.
//
// Tests drive it with a Scheduler, which lets one port call through at a time and may kill the daemon at any of
// them. Without a Scheduler calls happen at once, as `ckecli plan` wants it.
package sim
