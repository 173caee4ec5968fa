package pages

import "slices"

// Join joins two trees, where all of right comes after all of left. It has the right edge of left, and the left edge of
// right. Pages are copied, never changed. bbolt merges adjacent pages later, so all leaves of the result must be equally
// deep, and no branch may have a single page below it.
func Join(w *Writer, left, right Subtree) (root uint64, err error) {
	top := []Item{left.item(), right.item()}
	switch {
	case left.Height == 0 || right.Height == 0:
		return max(left.root, right.root), nil
	case left.Height > right.Height:
		top, err = w.enter(left.edge[:left.Height-right.Height], top, false)
	case left.Height < right.Height:
		top, err = w.enter(right.edge[:right.Height-left.Height], top, true)
	}
	if err != nil || len(top) == 1 {
		return top[0].Child, err
	}
	return w.WritePage(BranchPage, top)
}

// enter puts the first of two pages before the first page below an edge, or the second one behind the last, and copies the branches
// of the edge. It returns what has to stand above these: one page, or two if there was no room.
func (w *Writer) enter(edge [][]Item, two []Item, before bool) (pages []Item, err error) {
	for n := len(edge) - 1; n >= 0; n-- {
		items, rest := edge[n], len(edge[n])-1
		switch {
		case n == len(edge)-1 && before:
			items = slices.Concat(two[:1], items)
		case n == len(edge)-1:
			items = slices.Concat(items, two[1:])
		case before: // copies stand in for the page below
			items = slices.Concat(pages, items[1:])
		default:
			pages[0].Key = items[rest].Key
			items = slices.Concat(items[:rest], pages)
		}
		if pages, err = w.writeBranch(items); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// writeBranch writes a branch, or two if there is too much for one page.
func (w *Writer) writeBranch(items []Item) (pages []Item, err error) {
	halves := [][]Item{items}
	if pageBytes(items) > w.Size {
		halves = [][]Item{items[:len(items)/2], items[len(items)/2:]}
	}
	for _, half := range halves {
		id, err := w.WritePage(BranchPage, half)
		if err != nil {
			return nil, err
		}
		pages = append(pages, Item{Key: half[0].Key, Child: id})
	}
	return pages, nil
}
