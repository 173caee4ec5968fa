package clusterfile

import (
	"fmt"
	"strings"
	"time"

	"cke"
)

// Bounds of a repair section.
const (
	maxProcedures     = 100
	maxRepairSteps    = 20
	maxRepairRetries  = 10
	maxRepairsPerDay  = 100 // as many are kept in the history
	maxRepairCooldown = 30 * 24 * time.Hour
)

// checkRepair checks how machines are repaired.
func checkRepair(f *findings, p string, o cke.RepairOptions) {
	if len(o.Procedures) == 0 && f.given(p) && !f.isFaulty(p+".procedures") {
		f.fault(p+".procedures", "is missing: no machine can be repaired", "Write a procedure, as - {on: unreachable, steps: [{command: power-cycle, reboot: true}]}.")
	}
	number := func(p string, n, most int, usual string) {
		if n < 0 || n > most || n == 0 && f.given(p) {
			f.fault(p, fmt.Sprintf("invalid number %d", n), fmt.Sprintf("Write a number from 1 to %d; %s", most, usual))
		}
	}
	number(p+".max_concurrent", o.MaxConcurrent, maxConcurrentReboot, "of nodes with members only one is repaired at a time.")
	number(p+".per_day", o.PerDay, maxRepairsPerDay, "3 is usual.")
	checkSpan(f, p+".cooldown", o.Cooldown, time.Second, maxRepairCooldown, "24h is usual.")
	if len(o.Procedures) > maxProcedures {
		f.fault(p+".procedures", fmt.Sprintf("has %d procedures", len(o.Procedures)), fmt.Sprintf("Write %d or less.", maxProcedures))
		return
	}
	seen := map[string]string{}
	for i, r := range o.Procedures {
		checkProcedure(f, itemPath(p+".procedures", i), r, seen)
	}
}

func checkProcedure(f *findings, p string, r cke.RepairProcedure, seen map[string]string) {
	switch {
	case r.On == "":
		f.fault(p+".on", "is missing", "Name the fault that it repairs, as on: unreachable.")
	case !commandName.MatchString(r.On):
		f.fault(p+".on", fmt.Sprintf("%q is not the name of a fault", shorten(r.On)), "Write up to 64 lower-case letters, digits, dots, underscores and hyphens.")
	}
	types := r.Types
	if len(types) == 0 {
		types = []string{""}
	}
	for k, of := range types {
		if of == "" && len(r.Types) > 0 {
			f.fault(itemPath(p+".types", k), "is empty", "Write a value of the label "+cke.LabelMachineType+", or remove it.")
			continue
		}
		twice(f, seen, p, strings.TrimSpace(r.On+" "+of), "procedure for", "Remove one of them: the first one is taken.")
	}
	checkCommandName(f, p+".check", r.Check)
	if len(r.Steps) == 0 || len(r.Steps) > maxRepairSteps {
		f.fault(p+".steps", fmt.Sprintf("has %d steps", len(r.Steps)), fmt.Sprintf("Write 1 to %d.", maxRepairSteps))
		return
	}
	for k, s := range r.Steps {
		at := itemPath(p+".steps", k)
		if s.Command == "" {
			f.fault(at+".command", "is missing", "Write the name of a command in the daemon's configuration, as command: power-cycle.")
		}
		checkCommandName(f, at+".command", s.Command)
		checkSpan(f, at+".timeout", s.Timeout, time.Second, maxRebootSpan, "5m is usual.")
		checkSpan(f, at+".watch", s.Watch, time.Second, maxRebootSpan, "10m is usual.")
		if s.Retries < 0 || s.Retries > maxRepairRetries {
			f.fault(at+".retries", fmt.Sprintf("invalid number %d", s.Retries), fmt.Sprintf("Write a number from 0 to %d; 0 is usual.", maxRepairRetries))
		}
	}
}
