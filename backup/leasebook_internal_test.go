package backup

import (
	"maps"
	"testing"
)

// A list of changes names no lease that the daemon knew before: it shows nothing of one that the full lacks. Without a lease its keys would never expire.
func TestLeaseBook_AListOfChangesEndsNoLeaseThatItDoesNotName(t *testing.T) {
	const id = 7
	minute := int64(SafeTTL.Seconds())
	changes, whole := LeaseChange{Low: 12, High: 12}, LeaseChange{Low: 12, High: 12, Reset: true}
	gone := LeaseChange{Low: 12, High: 12, Gone: []int64{id}}
	for name, row := range map[string]struct {
		do   func(b *leaseBook)
		want int64 // the lease's time; 0: it has ended
	}{
		"after the change":                      {func(b *leaseBook) { b.refer(id, 11); b.observe(changes, 10) }, minute},
		"before the change":                     {func(b *leaseBook) { b.observe(changes, 10); b.refer(id, 11) }, minute},
		"it names the lease as gone":            {func(b *leaseBook) { b.refer(id, 11); b.observe(gone, 10) }, 0},
		"a list of all leases":                  {func(b *leaseBook) { b.refer(id, 11); b.observe(whole, 10) }, 0},
		"after a list of all leases":            {func(b *leaseBook) { b.observe(whole, 10); b.refer(id, 11); b.observe(changes, 10) }, 0},
		"a list from before the full":           {func(b *leaseBook) { b.refer(id, 11); b.observe(LeaseChange{Low: 9, High: 9, Reset: true}, 10) }, minute},
		"named again after it was seen to end":  {func(b *leaseBook) { b.refer(id, 11); b.observe(gone, 10); b.refer(id, 13) }, minute},
		"named again where another list counts": {func(b *leaseBook) { b.observe(whole, 10); b.refer(id, 13); b.observe(changes, 10) }, minute},
	} {
		b := newLeaseBook(20)
		row.do(b)
		if ttl := b.settle(nil)[id]; ttl != row.want {
			t.Errorf("%s: %d s, want %d", name, ttl, row.want)
		}
	}
}

// A list of all leases was requested before the full and received after it. A lease that the full has may be newer than the list: ended, its keys would
// never expire. One that the list shows may have come after the full.
func TestLeaseBook_AListFromBesideAFullEndsNoLeaseOfIt(t *testing.T) {
	const id, other, gone = 7, 8, 9
	full := map[int64]int64{id: 3600, gone: 1800}
	beside := LeaseChange{Low: 9, High: 11, Reset: true, Granted: []Lease{{ID: other, TTL: 600}}, Gone: []int64{gone}}
	for name, row := range map[string]struct {
		lists []LeaseChange
		want  map[int64]int64
	}{
		"alone":                         {[]LeaseChange{beside}, map[int64]int64{id: 3600, gone: 1800, other: 600}},
		"before a list after the full":  {[]LeaseChange{beside, {Low: 12, High: 12, Gone: []int64{id}}}, map[int64]int64{gone: 1800, other: 600}},
		"before a list of all after it": {[]LeaseChange{beside, {Low: 12, High: 12, Reset: true}}, map[int64]int64{}},
		"requested after the full":      {[]LeaseChange{{Low: 10, High: 11, Reset: true}}, map[int64]int64{}},
		"changes":                       {[]LeaseChange{{Low: 9, High: 11, Gone: []int64{gone}}}, full},
	} {
		b := newLeaseBook(20)
		for _, c := range row.lists {
			b.observe(c, 10)
		}
		if got := b.settle(full); !maps.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// Lists of leases are repeated, and those of another daemon may be from a member that lags: what a list lacks had not been granted yet when it was made,
// if a later change names it. Without the lease its key would never expire.
func TestLeaseBook_AListEndsNoLeaseThatIsGrantedAfterIt(t *testing.T) {
	const id = 7
	minute := int64(SafeTTL.Seconds())
	after := LeaseChange{Low: 10, High: 10, Granted: []Lease{{ID: id, TTL: 3600}}, Gone: []int64{id}} // the watch brought it before the list was complete
	all, beside, empty := after, after, LeaseChange{Low: 10, High: 10, Reset: true}
	all.Reset, beside.High = true, 12
	later := LeaseChange{Low: 16, High: 16, Granted: []Lease{{ID: id, TTL: 3600}}}
	for name, row := range map[string]struct {
		do         func(b *leaseBook)
		want, full int64 // the lease's time where the full lacks it, and where it has it with 1800 s; 0: it has ended
	}{
		"a list that is repeated":               {func(b *leaseBook) { b.observe(after, 5); b.refer(id, 11); b.observe(after, 5) }, 3600, 3600},
		"one of all leases":                     {func(b *leaseBook) { b.observe(all, 5); b.refer(id, 11); b.observe(all, 5) }, 3600, 3600},
		"beside a full":                         {func(b *leaseBook) { b.observe(beside, 11); b.refer(id, 12); b.observe(beside, 11) }, 3600, 1800},
		"right before a full":                   {func(b *leaseBook) { b.refer(id, 11); b.observe(empty, 10) }, minute, 1800},
		"before a list that does not count yet": {func(b *leaseBook) { b.refer(id, 11); b.observe(after, 5); b.observe(later, 5) }, 3600, 3600},
		"named before the list":                 {func(b *leaseBook) { b.refer(id, 9); b.observe(after, 5) }, 0, 0},
		"of a member that lags behind the one before": {func(b *leaseBook) {
			b.observe(LeaseChange{Low: 14, High: 14, Reset: true, Granted: []Lease{{ID: id, TTL: 3600}}}, 5)
			b.observe(LeaseChange{Low: 12, High: 12, Reset: true}, 5)
			b.refer(id, 13)
			b.observe(later, 5)
		}, 3600, 3600},
	} {
		b := newLeaseBook(15)
		row.do(b)
		without, with := b.settle(map[int64]int64{})[id], b.settle(map[int64]int64{id: 1800})[id]
		if without != row.want || with != row.full {
			t.Errorf("%s: %d s, want %d; %d s where the full has it, want %d", name, without, row.want, with, row.full)
		}
	}
}
