package backup

import "slices"

// branchLeast is how many pages bbolt wants below a branch, however long their keys are.
const branchLeast = 2

// subtree is a page and all below: height 1 is a leaf, 0 nothing at all.
type subtree struct {
	root   uint64
	height int
	first  []byte // its first key
	// edge are the branches on one side of it, the root first.
	edge [][]item
}

func (s subtree) item() item { return item{key: s.first, child: s.root} }

// treeLoader makes a tree of what comes in the order of its keys. Memory: two pages of each level.
type treeLoader struct {
	w      *pageWriter
	levels []treeLevel // the leaves first
	edge   [][]item    // the first branch of each level, the root last
}

// newLoader writes a tree by a writer.
func newLoader(w *pageWriter) *treeLoader { return &treeLoader{w: w} }

// treeLevel is the page that is being filled on one level.
type treeLevel struct {
	items []item
	keys  []byte // memory of the items' keys
	bytes int
}

// add takes the next element of a leaf. The value has to stay as it is until a few pages more have come.
func (t *treeLoader) add(key, value []byte) error {
	return t.addTo(0, item{key: key, value: value})
}

func (t *treeLoader) addTo(level int, i item) error {
	if level == len(t.levels) {
		t.levels = append(t.levels, treeLevel{})
	}
	l := &t.levels[level]
	least := 1
	if level > 0 {
		least = branchLeast + 1 // and one for the next page
	}
	if len(l.items) >= least && (pageHeader+l.bytes+i.bytes() > t.w.size || len(l.items) == 1<<16-2) {
		if err := t.flush(level, level > 0); err != nil {
			return err
		}
		l = &t.levels[level]
	}
	l.take(i)
	return nil
}

func (l *treeLevel) take(i item) {
	at := len(l.keys)
	l.keys = append(l.keys, i.key...)
	i.key = l.keys[at:len(l.keys):len(l.keys)]
	l.items, l.bytes = append(l.items, i), l.bytes+i.bytes()
}

// flush writes the page of a level and enters it in the one above. keep leaves its last item for the next page, which will have
// branchLeast with it.
func (t *treeLoader) flush(level int, keep bool) error {
	l := &t.levels[level]
	items := l.items
	if keep {
		items = items[:len(items)-1]
	}
	flags := uint16(branchPage)
	if level == 0 {
		flags = leafPage
	}
	id, err := t.w.writePage(flags, items)
	if err != nil {
		return err
	}
	if level == len(t.edge)+1 {
		t.edge = append(t.edge, cloneItems(items))
	}
	err = t.addTo(level+1, item{key: items[0].key, child: id})
	l = &t.levels[level] // addTo may have moved it
	kept := cloneItems(l.items[len(items):])
	clear(l.items)
	l.items, l.keys, l.bytes = l.items[:0], l.keys[:0], 0
	for _, i := range kept {
		l.take(i)
	}
	return err
}

func cloneItems(items []item) []item {
	items = slices.Clone(items)
	for n := range items {
		items[n].key = slices.Clone(items[n].key)
	}
	return items
}

// finish writes what is left and returns the tree, with its left edge.
func (t *treeLoader) finish() (subtree, error) {
	for level := 0; level < len(t.levels); level++ {
		l := &t.levels[level]
		if level == len(t.levels)-1 && level > 0 && len(l.items) == 1 {
			slices.Reverse(t.edge)
			return subtree{root: l.items[0].child, height: level, first: slices.Clone(l.items[0].key), edge: t.edge}, nil
		}
		if err := t.flush(level, false); err != nil {
			return subtree{}, err
		}
	}
	return subtree{}, nil
}

// bucketRoot is finish for a bucket, which has a page even if it is empty.
func (t *treeLoader) bucketRoot() (uint64, error) {
	s, err := t.finish()
	if err == nil && s.height == 0 {
		return t.w.writePage(leafPage, nil)
	}
	return s.root, err
}
