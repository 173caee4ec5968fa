package etcdnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"cke"
)

// strangers asks the members that no membership names about themselves, at the addresses that the member list has. Those of an old
// cluster were asked already.
func (f *Fleet) strangers(ctx context.Context, members []cke.Member, sc scope) []cke.EndpointStatus {
	joins := sc.joins
	ctx, cancel := context.WithTimeout(ctx, allowed(endpointLimit+endpointLimit/4))
	defer cancel()
	asked := time.Now()
	var found []cke.EndpointStatus
	var asking []cke.Member
	for _, m := range members {
		url, ok := cke.StrangerURL(m, joins)
		if ok && !sc.old.Has(m) && m.Name != "" && len(found) < cke.MaxStrangers && !slices.ContainsFunc(joins, m.Of) {
			found, asking = append(found, cke.EndpointStatus{URL: url}), append(asking, m)
		}
	}
	var wg sync.WaitGroup
	for i, m := range asking {
		wg.Go(func() { found[i] = f.stranger(ctx, m, found[i].URL, asked) })
	}
	wg.Wait()
	return found
}

// stranger asks one of them. Another member may answer at its address.
func (f *Fleet) stranger(ctx context.Context, m cke.Member, url string, asked time.Time) cke.EndpointStatus {
	s := f.askAt(ctx, url, asked).status
	if s.Problem == "" && s.MemberID != m.ID {
		return cke.EndpointStatus{URL: url, Problem: "member " + s.MemberID + " answers there, not " + m.ID}
	}
	return s
}

// beside asks members where they are not on record, and those of the cluster that a restore under way replaces, and adds what they answer.
func (f *Fleet) beside(ctx context.Context, s cke.EtcdStatus, ask []cke.Elsewhere, replaced []cke.Former) cke.EtcdStatus {
	ctx, cancel := context.WithTimeout(ctx, allowed(endpointLimit+endpointLimit/4))
	defer cancel()
	asked := time.Now()
	var wg sync.WaitGroup
	found := make([]endpointFacts, len(replaced))
	for i, m := range replaced {
		wg.Go(func() {
			found[i] = f.askAt(ctx, m.URL, asked)
			found[i].status.Join = m.Join.ID
		})
	}
	for i := range ask {
		wg.Go(func() {
			a := &ask[i]
			facts := f.askAt(ctx, a.URL, asked)
			facts.status.Join = a.Join
			a.EndpointStatus, a.Members, a.Source = facts.status, facts.members, facts.source
		})
	}
	wg.Wait()
	s.Elsewhere = ask
	for i, m := range replaced {
		s.Superseded = append(s.Superseded, found[i].status)
		s = s.TakesFormer(m, found[i].status, found[i].members, found[i].source)
	}
	return s
}

// askAt asks whoever answers at a client URL.
func (f *Fleet) askAt(ctx context.Context, url string, asked time.Time) endpointFacts {
	w := f.watchStranger(url)
	if w == nil {
		return endpointFacts{status: cke.EndpointStatus{URL: url, Problem: errClosed.Error()}}
	}
	facts, _ := memberFacts(ctx, w, w.want(), asked)
	facts.status.URL = url
	return facts
}

// watchStranger starts to look at a member, if that has not started; it ends once the member is not asked for any more.
func (f *Fleet) watchStranger(url string) *watch[endpointFacts] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	e := f.endpoint(url)
	e.touch()
	e.observe()
	return e.watch.Load()
}
