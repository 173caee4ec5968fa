package clusterfile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"cke"
)

// Bounds of a reboot section.
const (
	maxRebootRetries    = 10
	maxConcurrentReboot = 100
	maxRebootSpan       = 24 * time.Hour
)

var commandName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// checkReboot checks how nodes are rebooted.
func checkReboot(f *findings, p string, o cke.RebootOptions) {
	if o.Command == "" && !o.FleetLock && f.given(p) && !f.isFaulty(p+".command") {
		f.fault(p+".command", "is missing: no node can be rebooted", "Write the name of a command in the daemon's configuration, as command: power-cycle.")
	}
	checkCommandName(f, p+".command", o.Command)
	checkCommandName(f, p+".check", o.Check)
	checkSpan(f, p+".command_timeout", o.CommandTimeout, time.Second, maxRebootSpan, "5m is usual.")
	checkSpan(f, p+".boot_timeout", o.BootTimeout, time.Minute, maxRebootSpan, "30m is usual.")
	checkSpan(f, p+".interval", o.Interval, time.Second, maxRebootSpan, "1m is usual.")
	checkSpan(f, p+".settle", o.Settle, time.Second, maxRebootSpan, "2m is usual.")
	if n := o.Retries; n != nil && (*n < 0 || *n > maxRebootRetries) {
		f.fault(p+".retries", fmt.Sprintf("invalid number %d", *n), fmt.Sprintf("Write a number from 0 to %d; 2 is usual.", maxRebootRetries))
	}
	if n := o.MaxConcurrent; n < 0 || n > maxConcurrentReboot || n == 0 && f.given(p+".max_concurrent") {
		f.fault(p+".max_concurrent", fmt.Sprintf("invalid number %d", n), fmt.Sprintf("Write a number from 1 to %d; of nodes with members only one reboots at a time.", maxConcurrentReboot))
	}
	if f.given(p+".window") || o.Window != (cke.Window{}) {
		checkOpening(f, p+".window", o.Window, "no node would ever be rebooted")
	}
}

// checkCommandName checks the name of a command of the daemon's configuration; empty: there is none.
func checkCommandName(f *findings, p, name string) {
	if name != "" && !commandName.MatchString(name) {
		f.fault(p, fmt.Sprintf("%q is not the name of a command", shorten(name)), "Write a name from `commands` in the daemon's configuration, which has the program and its arguments.")
	}
}

// checkCommands checks the commands of the configuration file.
func checkCommands(f *findings, p string, commands map[string][]string) {
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at, words := childPath(p, name), commands[name]
		if !commandName.MatchString(name) {
			f.fault(at, "invalid name of a command", "Write up to 64 lower-case letters, digits, dots, underscores and hyphens.")
		}
		switch {
		case len(words) == 0 || words[0] == "":
			f.fault(at, "has no program", "Write the program and its arguments, as [/usr/local/bin/bmc, cycle].")
		case !path.IsAbs(words[0]) || path.Clean(words[0]) != words[0]:
			f.fault(itemPath(at, 0), fmt.Sprintf("%q is not an absolute path", shorten(words[0])), "Write the full path of the program; no shell reads it.")
		case slices.ContainsFunc(words, func(w string) bool { return strings.ContainsRune(w, 0) }):
			f.fault(at, "has an argument with a zero byte", "Remove it.")
		}
	}
}
