package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
	"cke/sabakan"
)

// inventories is what users say about inventories, and what leaders know of them.
type inventories interface {
	Inventories(ctx context.Context) ([]string, error)
	Inventory(ctx context.Context, cluster string) (cke.InventorySettings, error)
	SetInventory(ctx context.Context, cluster, by string, change func(*cke.InventorySettings)) error
	InventoryPast(ctx context.Context, cluster string) (cke.InventoryPast, error)
	OrderInventory(ctx context.Context, cluster string, o cke.InventoryOrder) error
	NodesOfOthers(ctx context.Context, cluster string) (map[string]string, error)
}

// inventorySetting is what commands about one setting write for programs.
type inventorySetting struct {
	Cluster string `json:"cluster"`
	Enabled bool   `json:"enabled"`
	URL     string `json:"url,omitempty"`
	// Template and Variables are texts.
	Template  string `json:"template,omitempty"`
	Variables string `json:"variables,omitempty"`
}

// theInventory returns the cluster that a command about an inventory is about, which need not be declared yet.
func (a *app) theInventory(ctx context.Context, s store) (string, error) {
	if a.cluster != "" {
		return a.cluster, nil
	}
	names, err := s.Clusters(ctx)
	if err != nil {
		return "", err
	}
	more, err := s.Inventories(ctx)
	if err != nil {
		return "", err
	}
	names = append(names, more...)
	slices.Sort(names)
	return onlyCluster(slices.Compact(names))
}

func newSabakanSetTemplateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "set-template FILE|-", Short: "Store the template of a cluster, which need not exist yet", Args: arguments(1, 1),
		Long: `Store a template: a cluster file whose nodes are patterns, with an inventory section. It is checked in full. Nothing follows from
it until ` + "`ckecli sabakan enable`" + `.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			data, err := a.readFile(ctx, args[0])
			if err != nil {
				return err
			}
			t, warnings, err := clusterfile.ParseTemplate(fileName(args[0]), data)
			for _, w := range warnings {
				fmt.Fprintf(a.stderr, "warning: %s\n", w)
			}
			if err != nil {
				return err
			}
			if err := a.sameCluster(args[0], cke.Cluster{Name: t.Name}); err != nil {
				return err
			}
			return a.setInventory(ctx, s, t.Name, "the template is set", func(i *cke.InventorySettings) { i.Template = string(data) })
		}),
	}
}

func newSabakanSetURLCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "set-url URL", Short: "Store where the inventory is: a sabakan server, or an inventory file", Args: arguments(1, 1),
		Long: `Store where the inventory is. With source: sabakan in the template it is the URL of a server, as http://10.0.0.1:10080; with source:
file it is an https URL, or the absolute path of a file on every management host.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			cluster, err := a.theInventory(ctx, s)
			if err != nil {
				return err
			}
			if err := checkInventoryURL(ctx, s, cluster, args[0]); err != nil {
				return err
			}
			return a.setInventory(ctx, s, cluster, "the inventory is at "+args[0], func(i *cke.InventorySettings) { i.URL = args[0] })
		}),
	}
}

// checkInventoryURL refuses what the template's kind of inventory cannot be at.
func checkInventoryURL(ctx context.Context, s store, cluster, url string) error {
	source := cke.SourceSabakan
	if !strings.Contains(url, "://") {
		source = cke.SourceFile
	}
	i, err := s.Inventory(ctx, cluster)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	if err == nil && i.Template != "" {
		t, err := clusterfile.InventoryTemplate(i)
		if err != nil {
			return err
		}
		source = t.Inventory.Source
	}
	if source == cke.SourceFile && !strings.Contains(url, "://") && !filepath.IsAbs(url) {
		err = fmt.Errorf("%q is a path that depends on the current directory: want an absolute path, as /etc/cke/hosts.yml", url)
	} else {
		_, err = sabakan.Open(source, url, clusterfile.ParseHosts)
	}
	if err != nil {
		return &cke.Error{Code: cke.CodeConfig, What: err.Error(), Unchanged: true}
	}
	return nil
}

func newSabakanSetVariablesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "set-variables FILE|-", Short: "Store filters in the form of sabakan's query variables, in place of the template's", Args: arguments(1, 1),
		Long: `Store filters in the form of the variables of a sabakan query, as {"having": {"roles": ["cs"]}, "notHaving": {}}. They take the place
of having and not_having of the template. An empty file removes them.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			cluster, err := a.theInventory(ctx, s)
			if err != nil {
				return err
			}
			data, err := a.readFile(ctx, args[0])
			if err != nil {
				return err
			}
			text, line := strings.TrimSpace(string(data)), "the variables are set"
			if text == "" {
				line = "there are no variables: the filters are those of the template"
			} else if _, _, err := clusterfile.ParseVariables(fileName(args[0]), data); err != nil {
				return err
			}
			return a.setInventory(ctx, s, cluster, line, func(i *cke.InventorySettings) { i.Variables = text })
		}),
	}
}

func newSabakanEnableCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "enable", Short: "Let the leader daemon read the inventory, and do what the template's mode says", Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			cluster, i, err := a.inventorySet(ctx, s)
			if err != nil {
				return err
			}
			cannot := func(what, try string) error {
				return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the inventory of cluster %s cannot be used: %s", cluster, what), Unchanged: true, Try: try}
			}
			switch {
			case i.Template == "":
				return cannot("no template is set", "ckecli sabakan set-template FILE")
			case i.URL == "":
				return cannot("it is not known where it is", "ckecli sabakan set-url URL")
			}
			return a.setInventory(ctx, s, cluster, "the inventory is used", func(i *cke.InventorySettings) { i.Enabled = true })
		}),
	}
}

func newSabakanDisableCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "disable", Short: "Stop reading the inventory; nothing follows from it", Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			cluster, _, err := a.inventorySet(ctx, s)
			if err != nil {
				return err
			}
			return a.setInventory(ctx, s, cluster, "the inventory is not used", func(i *cke.InventorySettings) { i.Enabled = false })
		}),
	}
}

// inventorySet is the cluster, and what is set of its inventory.
func (a *app) inventorySet(ctx context.Context, s store) (cluster string, i cke.InventorySettings, err error) {
	if cluster, err = a.theInventory(ctx, s); err == nil {
		i, err = s.Inventory(ctx, cluster)
	}
	return cluster, i, err
}

// setInventory changes one setting, and says so.
func (a *app) setInventory(ctx context.Context, s store, cluster, line string, change func(*cke.InventorySettings)) error {
	if err := s.SetInventory(ctx, cluster, a.whoami(), change); err != nil {
		return detached(ctx, err, "it is not known whether it was stored", a.again(cluster, "sabakan is-enabled"))
	}
	i, err := s.Inventory(ctx, cluster)
	if err != nil {
		return err
	}
	if !i.Enabled && i.Template != "" && i.URL != "" {
		line += "; nothing follows from it before `ckecli sabakan enable`"
	}
	return a.showLine(settingOf(cluster, i), cluster, cluster+": "+line)
}

func settingOf(cluster string, i cke.InventorySettings) inventorySetting {
	return inventorySetting{cluster, i.Enabled, i.URL, i.Template, i.Variables}
}

// newSabakanGetCommand shows one setting; what names it where there is none.
func newSabakanGetCommand(a *app, use, short, what, try string, of func(cke.InventorySettings) string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			cluster, i, err := a.inventorySet(ctx, s)
			if err != nil {
				return err
			}
			text := of(i)
			if text == "" {
				return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has no %s", cluster, what), Unchanged: true, Try: try}
			}
			return a.showLine(settingOf(cluster, i), strings.TrimSuffix(text, "\n"), strings.TrimSuffix(text, "\n"))
		}),
	}
}

// settings are the commands that show and change what is said about an inventory.
func settingsCommands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newSabakanEnableCommand(a), newSabakanDisableCommand(a),
		newSabakanGetCommand(a, "is-enabled", "Show whether the inventory is used: true or false", "setting", "ckecli sabakan enable", func(i cke.InventorySettings) string { return fmt.Sprint(i.Enabled) }),
		newSabakanSetURLCommand(a),
		newSabakanGetCommand(a, "get-url", "Show where the inventory is", "URL of an inventory", "ckecli sabakan set-url URL", func(i cke.InventorySettings) string { return i.URL }),
		newSabakanSetTemplateCommand(a),
		newSabakanGetCommand(a, "get-template", "Show the template as it was given", "template", "ckecli sabakan set-template FILE", func(i cke.InventorySettings) string { return i.Template }),
		newSabakanSetVariablesCommand(a),
		{
			Use: "schema", Short: "Print the JSON schema of templates, for editors; needs no store", Args: arguments(0, 0),
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprintf(a.stdout, "%s\n", cke.TemplateSchema())
				return err
			},
		},
		newSabakanGetCommand(a, "get-variables", "Show the query variables as they were given", "query variables", "ckecli sabakan set-variables FILE", func(i cke.InventorySettings) string { return i.Variables }),
	}
}
