package backup

import "testing"

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
