package clusterfile

import (
	"fmt"
	"reflect"
	"slices"

	"cke"
)

// variables is the form of the file with which CKE asks sabakan for machines.
type variables struct {
	Having    machineParams `yaml:"having"`
	NotHaving machineParams `yaml:"notHaving"`
}

type machineParams struct {
	Labels              []machineLabel `yaml:"labels"`
	Racks               []int          `yaml:"racks"`
	Roles               []string       `yaml:"roles"`
	States              []string       `yaml:"states"`
	MinDaysBeforeRetire *int           `yaml:"minDaysBeforeRetire"`
}

type machineLabel struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// ParseVariables reads the variables of a sabakan query, JSON or YAML, as the filters that they are. The error is as that of
// ParseCluster.
func ParseVariables(file string, data []byte) (having, notHaving cke.HostFilter, err error) {
	f, content := newFindings(file), variables{}
	unknown := func(d *decoder, at place, path, key string, t reflect.Type) {
		unknownKey(d, at, path, key, t, reflect.TypeFor[variables]())
	}
	if parse(f, data, &content, unknown, `Write {"having": {"roles": ["cs"]}}.`) {
		having, notHaving = content.Having.filter(f, "having"), content.NotHaving.filter(f, "notHaving")
	}
	if err := f.err(); err != nil {
		return cke.HostFilter{}, cke.HostFilter{}, err
	}
	return having, notHaving, nil
}

// filter returns the filter, and puts what is wrong with it into f.
func (m machineParams) filter(f *findings, path string) cke.HostFilter {
	h := cke.HostFilter{Racks: m.Racks, Roles: m.Roles, MinDaysBeforeRetire: m.MinDaysBeforeRetire}
	for i, l := range m.Labels {
		p := itemPath(path+".labels", i)
		switch _, twice := h.Labels[l.Name]; {
		case l.Name == "":
			f.fault(p+".name", "is missing", "Write the name of a label.")
		case twice:
			f.fault(p+".name", fmt.Sprintf("a second value of the label %q: no machine has both", shorten(l.Name)), "Leave one of them out.")
		case h.Labels == nil:
			h.Labels = map[string]string{}
			fallthrough
		default:
			h.Labels[l.Name] = l.Value
		}
	}
	for i, word := range m.States {
		s := cke.HostStateOf(word)
		if s == cke.HostUnknown {
			f.fault(itemPath(path+".states", i), fmt.Sprintf("unknown state %q", shorten(word)), "Write HEALTHY, UNHEALTHY, UNREACHABLE, UPDATING, UNINITIALIZED, RETIRING or RETIRED.")
		} else if !slices.Contains(h.States, s) {
			h.States = append(h.States, s)
		}
	}
	checkFilter(f, path, cke.HostFilter{Racks: h.Racks, Roles: h.Roles})
	if d := h.MinDaysBeforeRetire; d != nil && *d < 0 {
		f.fault(path+".minDaysBeforeRetire", fmt.Sprintf("%d is negative", *d), "Write a number of days.")
	}
	return h
}

// InventoryTemplate returns the template that operators have set, with their variables, and its defaults filled in.
func InventoryTemplate(s cke.InventorySettings) (cke.Template, error) {
	t, _, err := ParseTemplate("the stored template", []byte(s.Template))
	if err == nil && s.Variables != "" {
		t.Inventory.Having, t.Inventory.NotHaving, err = ParseVariables("the stored variables", []byte(s.Variables))
	}
	return t.Filled(), err
}
