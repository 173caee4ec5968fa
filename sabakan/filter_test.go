package sabakan_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
)

var filterNow = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// filtered are hosts in which each filter has something to find.
func filtered(now time.Time) []cke.Host {
	days := func(n int, more time.Duration) time.Time {
		return now.Add(time.Duration(n)*24*time.Hour + more).Truncate(time.Second)
	}
	return []cke.Host{
		{ID: "boot", Role: "boot", Rack: 1, State: cke.HostHealthy},
		{ID: "cs1", Role: "cs", Rack: 1, State: cke.HostHealthy, Labels: map[string]string{"type": "big", "gen": "2"}, RetireDate: days(90, time.Hour)},
		{ID: "cs2", Role: "cs", Rack: 2, State: cke.HostUnhealthy, Labels: map[string]string{"type": "big", "gen": "3"}, RetireDate: days(90, -time.Hour)},
		{ID: "cs3", Role: "cs", Rack: 3, State: cke.HostUnreachable, Labels: map[string]string{"type": "small"}, RetireDate: days(-10, 0)},
		{ID: "ss1", Role: "ss", Rack: 2, State: cke.HostRetiring, Labels: map[string]string{"gen": "2"}, RetireDate: days(400, 0)},
	}
}

func days(n int) *int { return &n }

type filterCase struct {
	name              string
	roles             []string
	having, notHaving cke.HostFilter
	want              []string
}

var filterCases = []filterCase{
	{name: "all", want: []string{"boot", "cs1", "cs2", "cs3", "ss1"}},
	{name: "a label", having: cke.HostFilter{Labels: map[string]string{"type": "big"}}, want: []string{"cs1", "cs2"}},
	{name: "of labels all", having: cke.HostFilter{Labels: map[string]string{"type": "big", "gen": "2"}}, want: []string{"cs1"}},
	{name: "a label that no machine has", having: cke.HostFilter{Labels: map[string]string{"none": ""}}},
	{name: "of racks any", having: cke.HostFilter{Racks: []int{1, 3}}, want: []string{"boot", "cs1", "cs3"}},
	{name: "of roles any", having: cke.HostFilter{Roles: []string{"boot", "ss"}}, want: []string{"boot", "ss1"}},
	{name: "of states any", having: cke.HostFilter{States: []cke.HostState{cke.HostHealthy, cke.HostUnreachable}}, want: []string{"boot", "cs1", "cs3"}},
	{name: "all that is said", having: cke.HostFilter{Roles: []string{"cs"}, Racks: []int{1, 2}}, want: []string{"cs1", "cs2"}},
	{name: "whole days", having: cke.HostFilter{MinDaysBeforeRetire: days(90)}, want: []string{"cs1", "ss1"}},
	{name: "one day less", having: cke.HostFilter{MinDaysBeforeRetire: days(89)}, want: []string{"cs1", "cs2", "ss1"}},
	{name: "not too long", notHaving: cke.HostFilter{MinDaysBeforeRetire: days(90)}, want: []string{"boot", "cs2", "cs3"}},
	{name: "none of the labels", notHaving: cke.HostFilter{Labels: map[string]string{"type": "small", "gen": "2"}}, want: []string{"boot", "cs2"}},
	{name: "nothing that is said", notHaving: cke.HostFilter{Roles: []string{"boot"}, Racks: []int{3}, States: []cke.HostState{cke.HostRetiring}}, want: []string{"cs1", "cs2"}},
	{name: "both", having: cke.HostFilter{Roles: []string{"cs"}}, notHaving: cke.HostFilter{Racks: []int{2}}, want: []string{"cs1", "cs3"}},
}

func TestSelect_HasSabakansMeaning(t *testing.T) {
	roles := []filterCase{
		{name: "roles of the template", roles: []string{"ss"}, want: []string{"ss1"}},
		{name: "roles of the template and of the filter", roles: []string{"ss", "cs"}, having: cke.HostFilter{Roles: []string{"cs", "boot"}}, want: []string{"cs1", "cs2", "cs3"}},
	}
	for _, c := range slices.Concat(filterCases, roles) {
		if got := idsOf(sabakan.Select(filtered(filterNow), c.roles, c.having, c.notHaving, filterNow)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func idsOf(hosts []cke.Host) (ids []string) {
	for _, h := range hosts {
		ids = append(ids, h.ID)
	}
	return ids
}

// The real server selects the same with its own filters.
func TestSelect_IsWhatTheServerSelects(t *testing.T) {
	k := newKeeper(t)
	all := filtered(time.Now())
	k.add(all...)
	for _, h := range all {
		if h.State != cke.HostHealthy {
			k.setState(h.ID, h.State)
		}
	}
	for _, c := range filterCases {
		ours := idsOf(sabakan.Select(k.hosts(), nil, c.having, c.notHaving, time.Now()))
		if theirs := k.search(c.having, c.notHaving); !slices.Equal(ours, theirs) || !slices.Equal(ours, c.want) {
			t.Errorf("%s: got %v, the server has %v, want %v", c.name, ours, theirs, c.want)
		}
	}
}

// search asks the server with its own filters.
func (k keeper) search(having, notHaving cke.HostFilter) (ids []string) {
	k.t.Helper()
	words := map[cke.HostState]string{cke.HostHealthy: "HEALTHY", cke.HostUnreachable: "UNREACHABLE", cke.HostRetiring: "RETIRING"}
	params := func(f cke.HostFilter) map[string]any {
		p := map[string]any{"racks": f.Racks, "roles": f.Roles, "minDaysBeforeRetire": f.MinDaysBeforeRetire}
		labels, states := []map[string]string{}, []string{}
		for name, value := range f.Labels {
			labels = append(labels, map[string]string{"name": name, "value": value})
		}
		for _, s := range f.States {
			states = append(states, words[s])
		}
		p["labels"], p["states"] = labels, states
		return p
	}
	ask, err := json.Marshal(map[string]any{
		"query":     `query s($having: MachineParams, $notHaving: MachineParams) { searchMachines(having: $having, notHaving: $notHaving) { spec { serial } } }`,
		"variables": map[string]any{"having": params(having), "notHaving": params(notHaving)},
	})
	k.must(err)
	answer, err := http.Post(k.server.URL+"/graphql", "application/json", bytes.NewReader(ask))
	k.must(err)
	defer answer.Body.Close()
	var got struct {
		Errors any
		Data   struct {
			SearchMachines []struct{ Spec struct{ Serial string } }
		}
	}
	k.must(json.NewDecoder(answer.Body).Decode(&got))
	if got.Errors != nil {
		k.t.Fatal(got.Errors)
	}
	for _, m := range got.Data.SearchMachines {
		ids = append(ids, m.Spec.Serial)
	}
	slices.Sort(ids)
	return ids
}
