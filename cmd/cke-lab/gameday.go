package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cke/mtest/gameday"
	"cke/mtest/lab"
	"cke/mtest/rig"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// errVerdict says that a game day was not passed, which its verdict has explained.
var errVerdict = errors.New("the game day was not passed")

// The lab of `make demo`.
const (
	demoLabDir  = "lab"
	demoLabName = "cke-demo"
)

func newGamedayCommand(g *global) *cobra.Command {
	var demo, cluster string
	var minutes float64
	o := gameday.Options{}
	cmd := &cobra.Command{
		Use: "gameday", Short: "Break the cluster of `make demo` again and again under load, and check that nothing is lost",
		Long: `Break the cluster of ` + "`make demo`" + ` again and again while clients write, print what cke does about it, and give a verdict.

It fails unless every acknowledged write is there, read through every member, and the cluster is READY at the end.
Interrupt it to revert what is broken and get the verdict so far.

Faults: ` + strings.Join(gameday.Faults(), ", ") + `.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if minutes <= 0 {
				return usageError{fmt.Errorf("--minutes %v: want a positive number", minutes)}
			}
			if err := gameday.CheckFaults(o.Faults); err != nil {
				return usageError{fmt.Errorf("--faults: %w", err)}
			}
			o.For = time.Duration(minutes * float64(time.Minute))
			if !cmd.Flags().Changed("seed") {
				o.Seed = uint64(rand.N(1_000_000))
			}
			if !cmd.Flags().Changed("dir") {
				g.dir = filepath.Join(demo, demoLabDir)
			}
			if !cmd.Flags().Changed("name") {
				g.name = demoLabName
			}
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			if o.Rig, o.Daemon, err = openDemo(demo, cluster, l); err != nil {
				return err
			}
			// A second interrupt ends the program at once. One key stroke may send several.
			defer context.AfterFunc(cmd.Context(), func() {
				time.Sleep(time.Second)
				signal.Reset(os.Interrupt, syscall.SIGTERM)
			})()
			o.Out, o.Color = cmd.OutOrStdout(), term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
			return runGameday(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&demo, "demo", ".demo", "directory of `make demo`")
	cmd.Flags().StringVar(&cluster, "cluster", "demo", "name of the cluster")
	cmd.Flags().Float64Var(&minutes, "minutes", 3, "how long faults are started; the last one is waited for")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 0, "of the list of faults: the same seed gives the same faults in the same order (default: a random one)")
	cmd.Flags().StringSliceVar(&o.Faults, "faults", nil, "start only these faults")
	cmd.Flags().BoolVar(&o.BeyondQuorum, "beyond-quorum", false, "also kill, cut off or freeze so many nodes at once that the others have no quorum")
	return cmd
}

// openDemo finds the management host in the directory of `make demo`. ckecli is beside this program.
func openDemo(dir, cluster string, l *lab.Lab) (*rig.Rig, *rig.Process, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	r := &rig.Rig{Dir: dir, Bin: filepath.Dir(program), Lab: l, Cluster: cluster, Config: filepath.Join(dir, "config.yml")}
	daemon, err := rig.FindProcess(filepath.Join(dir, "cke.pid"), r.Config)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("no daemon runs in %s: start it with `make demo`, or give --demo", dir)
	}
	return r, daemon, err
}

func runGameday(ctx context.Context, o gameday.Options) error {
	again := fmt.Sprintf("cke-lab gameday --minutes %v --seed %d", o.For.Minutes(), o.Seed)
	if len(o.Faults) > 0 {
		again += " --faults " + strings.Join(o.Faults, ",")
	}
	if o.BeyondQuorum {
		again += " --beyond-quorum"
	}
	page, err := o.Rig.Page()
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The same faults again: %s\nWatch it: %s\n\n", again, page)
	v, err := gameday.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := v.Write(o.Out, o.Color); err != nil {
		return err
	}
	if !v.Passed() {
		return errVerdict
	}
	return nil
}
