package pages

import "slices"

// branchLeast is how many pages bbolt wants below a branch, however long their keys are.
const branchLeast = 2

// Subtree is a page and all below it: height 1 is a leaf, 0 is empty.
type Subtree struct {
	root   uint64
	Height int
	first  []byte // its first key
	// edge are the branches on one side of it, the root first.
	edge [][]Item
}

func (s Subtree) item() Item { return Item{Key: s.first, Child: s.root} }

// Loader builds a tree from elements in the order of their keys. Memory: two pages of each level.
type Loader struct {
	w      *Writer
	levels []layer  // the leaves first
	edge   [][]Item // the first branch of each level, the root last
}

// NewLoader returns a loader that writes its pages with w.
func NewLoader(w *Writer) *Loader { return &Loader{w: w} }

// layer is the page that is being filled on one level.
type layer struct {
	items []Item
	keys  []byte // memory of the items' keys
	bytes int
}

// Add adds the next element of a leaf. The value must stay unchanged until a few more pages were added.
func (t *Loader) Add(key, value []byte) error {
	return t.addTo(0, Item{Key: key, Value: value})
}

func (t *Loader) addTo(level int, i Item) error {
	if level == len(t.levels) {
		t.levels = append(t.levels, layer{})
	}
	l := &t.levels[level]
	least := 1
	if level > 0 {
		least = branchLeast + 1 // and one for the next page
	}
	if len(l.items) >= least && (HeaderSize+l.bytes+i.bytes() > t.w.Size || len(l.items) == 1<<16-2) {
		if err := t.flush(level, level > 0); err != nil {
			return err
		}
		l = &t.levels[level]
	}
	l.take(i)
	return nil
}

func (l *layer) take(i Item) {
	at := len(l.keys)
	l.keys = append(l.keys, i.Key...)
	i.Key = l.keys[at:len(l.keys):len(l.keys)]
	l.items, l.bytes = append(l.items, i), l.bytes+i.bytes()
}

// flush writes the page of a level and enters it in the one above. keep leaves its last item for the next page, which will have
// branchLeast with it.
func (t *Loader) flush(level int, keep bool) error {
	l := &t.levels[level]
	items := l.items
	if keep {
		items = items[:len(items)-1]
	}
	flags := uint16(BranchPage)
	if level == 0 {
		flags = LeafPage
	}
	id, err := t.w.WritePage(flags, items)
	if err != nil {
		return err
	}
	if level == len(t.edge)+1 {
		t.edge = append(t.edge, cloneItems(items))
	}
	err = t.addTo(level+1, Item{Key: items[0].Key, Child: id})
	l = &t.levels[level] // addTo may have moved it
	kept := cloneItems(l.items[len(items):])
	clear(l.items)
	l.items, l.keys, l.bytes = l.items[:0], l.keys[:0], 0
	for _, i := range kept {
		l.take(i)
	}
	return err
}

func cloneItems(items []Item) []Item {
	items = slices.Clone(items)
	for n := range items {
		items[n].Key = slices.Clone(items[n].Key)
	}
	return items
}

// Finish writes the rest and returns the tree, with its left edge.
func (t *Loader) Finish() (Subtree, error) {
	for level := 0; level < len(t.levels); level++ {
		l := &t.levels[level]
		if level == len(t.levels)-1 && level > 0 && len(l.items) == 1 {
			slices.Reverse(t.edge)
			return Subtree{root: l.items[0].Child, Height: level, first: slices.Clone(l.items[0].Key), edge: t.edge}, nil
		}
		if err := t.flush(level, false); err != nil {
			return Subtree{}, err
		}
	}
	return Subtree{}, nil
}

// BucketRoot does what Finish does for a bucket, which has a page even if it is empty.
func (t *Loader) BucketRoot() (uint64, error) {
	s, err := t.Finish()
	if err == nil && s.Height == 0 {
		return t.w.WritePage(LeafPage, nil)
	}
	return s.root, err
}
