// Package lab runs real nodes on one machine: containers that behave like machines with sshd and a Docker engine of
// their own, an address, a disk and a power switch. Users run it with cke-lab, tests through ForTest and Pool.
//
// A lab is a directory of state (keys, addresses, cut cables) plus containers and one network that carry its name.
// Everything observable is asked of Docker each time, so several processes can work on one lab.
//
// Node names are given either in full ("lab-n1"), short ("n1") or as the address.
package lab
