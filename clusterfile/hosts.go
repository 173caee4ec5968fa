package clusterfile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"cke"
)

// maxHostsSize bounds a file of hosts, in bytes: ten thousand of them.
const maxHostsSize = 4 << 20

// hostsFile is the form of a file of hosts.
type hostsFile struct {
	Hosts []listedHost `yaml:"hosts"`
}

type listedHost struct {
	ID         string            `yaml:"id"`
	Address    string            `yaml:"address"`
	Role       string            `yaml:"role"`
	Zone       string            `yaml:"zone"`
	Rack       int               `yaml:"rack"`
	Labels     map[string]string `yaml:"labels"`
	State      cke.HostState     `yaml:"state"`
	RetireDate string            `yaml:"retire_date"`
	BMC        string            `yaml:"bmc"`
}

// ParseHosts reads one inventory file, YAML or JSON, and checks it in full. file is the name that faults show. A host without
// a state is healthy; how long hosts are in their states is left zero. The error is as that of ParseCluster.
func ParseHosts(file string, data []byte) ([]cke.Host, error) {
	f, content := newFindings(file), hostsFile{}
	f.maxSize = maxHostsSize
	unknown := func(d *decoder, at place, path, key string, t reflect.Type) {
		unknownKey(d, at, path, key, t, reflect.TypeFor[hostsFile]())
	}
	const remedy = "Write hosts: and below it - {id: SERIAL, address: 10.0.0.11} for each machine."
	var hosts []cke.Host
	if parse(f, data, &content, unknown, remedy) {
		hosts = checkHosts(f, content.Hosts, remedy)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return hosts, nil
}

// checkHosts puts everything that is wrong with hosts into f.
func checkHosts(f *findings, all []listedHost, remedy string) (hosts []cke.Host) {
	const path = "hosts"
	if !f.given(path) && len(f.faults) == 0 { // else it is probably misspelled
		f.fault(path, "is missing", remedy+" If there is none, write hosts: [].")
	}
	ids, addresses := map[string]string{}, map[string]string{}
	for i, l := range all {
		p := itemPath(path, i)
		checkID(f, p+".id", l.ID)
		twice(f, ids, p+".id", l.ID, "id", "Every machine has its own id.")
		if looksLikeHost(l.Address) {
			f.fault(p+".address", fmt.Sprintf("%q is a host name, want an IP address", shorten(l.Address)), "Write the IP address of the machine.")
		}
		twice(f, addresses, p+".address", checkAddress(f, p+".address", l.Address), "address", "Every machine has its own address.")
		checkLabels(f, p+".labels", l.Labels)
		if l.Rack < 0 {
			f.fault(p+".rack", fmt.Sprintf("invalid rack %d", l.Rack), "Write 0 or a greater number, or leave it out.")
		}
		hosts = append(hosts, cke.Host{
			ID: l.ID, Addresses: []string{l.Address}, Role: l.Role, Rack: l.Rack, Zone: l.Zone, Labels: l.Labels, BMC: l.BMC,
			State: checkState(f, p+".state", l.State), RetireDate: checkDate(f, p+".retire_date", l.RetireDate),
		})
	}
	return hosts
}

func checkID(f *findings, path, id string) {
	switch {
	case id == "":
		f.fault(path, "is missing", "Give the machine's serial, which stays the same while its address changes.")
	case strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		f.fault(path, fmt.Sprintf("invalid id %q", shorten(id)), "Write the machine's serial, without spaces.")
	}
}

// checkState returns the state, by default healthy.
func checkState(f *findings, path string, s cke.HostState) cke.HostState {
	known := cke.HostStates()
	if s != "" && !slices.Contains(known, s) {
		words := make([]string, len(known))
		for i, k := range known {
			words[i] = string(k)
		}
		f.fault(path, fmt.Sprintf("unknown state %q", shorten(string(s))), "Write one of "+strings.Join(words, ", ")+".")
	}
	return cmp.Or(s, cke.HostHealthy)
}

// checkDate returns the day that s is, or zero.
func checkDate(f *findings, path, s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		f.fault(path, fmt.Sprintf("invalid date %q", shorten(s)), "Write the day as 2030-01-31.")
	}
	return d
}
