package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
	"cke/internal/term"
	"cke/sabakan"
)

func newSabakanCommand(a *app) *cobra.Command {
	all := []*cobra.Command{newSabakanMachinesCommand(a), newSabakanPreviewCommand(a), newSabakanApplyCommand(a)}
	return newGroup("sabakan", groupEtcd, "Use an inventory of machines", append(all, settingsCommands(a)...)...)
}

func newSabakanMachinesCommand(a *app) *cobra.Command {
	var server, file string
	cmd := &cobra.Command{
		Use: "machines --url URL|--file FILE", Short: "List the machines of an inventory as it is now; needs no store", Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			source, err := inventoryAt(server, file)
			if err != nil {
				return usageError{err, cmd.CommandPath()}
			}
			return runMachines(cmd.Context(), a, source)
		},
	}
	inventoryFlags(cmd, &server, &file)
	return cmd
}

func inventoryFlags(cmd *cobra.Command, server, file *string) {
	cmd.Flags().StringVar(server, "url", "", "`URL` of a sabakan server, as http://10.0.0.1:10080")
	cmd.Flags().StringVar(file, "file", "", "inventory `file`: a path or an https URL")
}

// inventoryAt returns the one inventory that flags name.
func inventoryAt(server, file string) (cke.Inventory, error) {
	switch {
	case (server == "") == (file == ""):
		return nil, errors.New("name one inventory: --url of a sabakan server, or --file")
	case server != "":
		return sabakan.NewServer(server)
	}
	return sabakan.NewFile(file, clusterfile.ParseHosts)
}

// inventoryMachine is a machine as `sabakan machines` writes it for programs.
type inventoryMachine struct {
	Serial    string            `json:"serial"`
	Addresses []string          `json:"addresses"`
	State     cke.HostState     `json:"state"`
	For       cke.Duration      `json:"for"` // seconds
	Role      string            `json:"role,omitempty"`
	Rack      int               `json:"rack"`
	Zone      string            `json:"zone,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// RetireDate is when it is due to be replaced.
	RetireDate time.Time `json:"retireDate,omitzero"`
	BMC        string    `json:"bmc,omitempty"`
}

func runMachines(ctx context.Context, a *app, source cke.Inventory) error {
	list, err := source.Hosts(ctx)
	if err != nil {
		return err
	}
	all, names := []inventoryMachine{}, []string{}
	for _, h := range list.Hosts {
		all = append(all, inventoryMachine{h.ID, append([]string{}, h.Addresses...), h.State, cke.Duration(h.For), h.Role, h.Rack, h.Zone, h.Labels, h.RetireDate, h.BMC})
		names = append(names, h.ID)
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		if len(all) == 0 {
			fmt.Fprintln(a.stderr, "The inventory has no machines.")
			return nil
		}
		header := []string{"SERIAL", "ADDRESS", "STATE", "FOR", "ROLE", "RACK", "ZONE"}
		if wide {
			header = append(header, "RETIRE DATE", "BMC", "LABELS")
		}
		t := term.NewTable(header...)
		for _, m := range all {
			t.Add(machineRow(m)...)
		}
		return t.Write(w, colour)
	}})
}

func machineRow(m inventoryMachine) []term.Cell {
	state, since, due := term.Text(string(m.State)), "", ""
	if m.State != cke.HostHealthy {
		state.Style = term.Yellow
	}
	if m.For > 0 { // a file has no times
		since = term.Age(time.Duration(m.For))
	}
	if !m.RetireDate.IsZero() {
		due = m.RetireDate.Format(time.DateOnly)
	}
	return []term.Cell{term.Text(m.Serial), term.Text(strings.Join(m.Addresses, ", ")), state, term.Text(since), term.Text(m.Role),
		term.Textf("%d", m.Rack), term.Text(m.Zone), term.Text(due), term.Text(m.BMC), term.Text(commaList(slices.Sorted(maps.Keys(m.Labels)), func(name string) string { return name + "=" + m.Labels[name] }))}
}
