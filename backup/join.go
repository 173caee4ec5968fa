package backup

import "slices"

// join makes one tree of two, of which all of right comes after all of left. It has the right edge of left, and the left one of
// right. Pages are copied, never changed. bbolt makes one page of neighbours later, so all leaves of the result have to be equally
// deep, and no branch may have a single page below it.
func join(w *pageWriter, left, right subtree) (root uint64, err error) {
	top := []item{left.item(), right.item()}
	switch {
	case left.height == 0 || right.height == 0:
		return max(left.root, right.root), nil
	case left.height > right.height:
		top, err = w.enter(left.edge[:left.height-right.height], top, false)
	case left.height < right.height:
		top, err = w.enter(right.edge[:right.height-left.height], top, true)
	}
	if err != nil || len(top) == 1 {
		return top[0].child, err
	}
	return w.writePage(branchPage, top)
}

// enter puts the first of two pages before the first page below an edge, or the second one behind the last, and copies the branches
// of the edge. It returns what has to stand above these: one page, or two if there was no room.
func (w *pageWriter) enter(edge [][]item, two []item, before bool) (pages []item, err error) {
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
			pages[0].key = items[rest].key
			items = slices.Concat(items[:rest], pages)
		}
		if pages, err = w.writeBranch(items); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// writeBranch writes a branch, or two if there is too much for one page.
func (w *pageWriter) writeBranch(items []item) (pages []item, err error) {
	halves := [][]item{items}
	if pageBytes(items) > w.size {
		halves = [][]item{items[:len(items)/2], items[len(items)/2:]}
	}
	for _, half := range halves {
		id, err := w.writePage(branchPage, half)
		if err != nil {
			return nil, err
		}
		pages = append(pages, item{key: half[0].key, child: id})
	}
	return pages, nil
}
