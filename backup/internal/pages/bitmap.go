package pages

// Bitmap is a set of small numbers.
type Bitmap []uint64

// NewBitmap returns one that has room for numbers less than n.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Has reports whether i is in the set.
func (b Bitmap) Has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// Set adds i to the set.
func (b Bitmap) Set(i int) { b[i/64] |= 1 << (i % 64) }
