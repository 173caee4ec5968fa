package backup

// bitmap is a set of small numbers.
type bitmap []uint64

// newBitmap has room for numbers less than n.
func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitmap) set(i int)      { b[i/64] |= 1 << (i % 64) }
