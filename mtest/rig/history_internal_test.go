package rig

import (
	"strings"
	"testing"
	"time"
)

// told is one call of a history with its begin and its end.
type told struct {
	call
	answer
	from, to int64
}

func TestHistory_KnowsWhatIsLinearizable(t *testing.T) {
	put := func(v string, from, to int64) told {
		return told{call{Key: "k", Action: write, Value: v}, answer{}, from, to}
	}
	lost := func(v string, from, to int64) told {
		return told{call{Key: "k", Action: write, Value: v}, answer{Unknown: true}, from, to}
	}
	get := func(v string, from, to int64) told {
		return told{call{Key: "k", Action: read}, answer{Value: v}, from, to}
	}
	cas := func(old, v string, from, to int64) told {
		return told{call{Key: "k", Action: swap, Expected: old, Value: v}, answer{Swapped: true}, from, to}
	}
	missed := func(old, v, found string, from, to int64) told {
		return told{call{Key: "k", Action: swap, Expected: old, Value: v}, answer{Value: found}, from, to}
	}
	lostCAS := func(old, v string, from, to int64) told {
		return told{call{Key: "k", Action: swap, Expected: old, Value: v}, answer{Unknown: true}, from, to}
	}
	other := func(o told) told { o.Key = "other"; return o }
	for _, tt := range []struct {
		name  string
		calls []told
		good  bool
	}{
		{"nothing", nil, true},
		{"one after the other", []told{put("1", 0, 1), get("1", 2, 3), put("2", 4, 5), get("2", 6, 7)}, true},
		{"a read beside a write sees either", []told{put("1", 0, 9), get("", 1, 2), get("1", 3, 4)}, true},
		{"a stale read", []told{put("1", 0, 1), put("2", 2, 3), get("1", 4, 5)}, false},
		{"a write that is undone", []told{put("1", 0, 1), get("1", 2, 3), get("", 4, 5)}, false},
		{"two reads see two writes in opposite orders", []told{put("1", 0, 9), put("2", 0, 9), get("1", 1, 2), get("2", 3, 4), get("1", 5, 6)}, false},
		{"a value from nowhere", []told{put("1", 0, 1), get("7", 2, 3)}, false},
		{"a value from the future", []told{get("1", 0, 1), put("1", 2, 3)}, false},
		{"keys have nothing to do with each other", []told{put("1", 0, 1), other(get("", 2, 3)), get("1", 4, 5)}, true},
		{"a write without an answer has no effect", []told{put("1", 0, 1), lost("2", 2, 3), get("1", 4, 5)}, true},
		{"or one at once", []told{put("1", 0, 1), lost("2", 2, 3), get("2", 4, 5)}, true},
		{"or one later, even after its client gave up", []told{put("1", 0, 1), lost("2", 2, 3), get("1", 4, 5), get("2", 6, 7)}, true},
		{"but not twice", []told{put("1", 0, 1), lost("2", 2, 3), get("2", 4, 5), put("3", 6, 7), get("2", 8, 9)}, false},
		{"and not before it was asked for", []told{get("2", 0, 1), lost("2", 2, 3)}, false},
		{"one of many without an answer", []told{lost("1", 0, 1), lost("2", 0, 1), lost("3", 0, 1), get("", 2, 3), get("2", 4, 5), get("3", 6, 7)}, true},
		{"a swap that held", []told{put("1", 0, 1), cas("1", "2", 2, 3), get("2", 4, 5)}, true},
		{"two swaps of one value", []told{put("1", 0, 1), cas("1", "2", 2, 5), cas("1", "3", 3, 6)}, false},
		{"a swap that did not hold", []told{put("1", 0, 1), missed("7", "2", "1", 2, 3), get("1", 4, 5)}, true},
		{"a swap that should have held", []told{put("1", 0, 1), missed("1", "2", "1", 2, 3)}, false},
		{"a swap that found what was not there", []told{put("1", 0, 1), put("2", 2, 3), missed("7", "3", "1", 4, 5)}, false},
		{"a swap without an answer", []told{put("1", 0, 1), lostCAS("1", "2", 2, 3), get("1", 4, 5), get("2", 6, 7)}, true},
		{"a swap without an answer that cannot have held", []told{put("1", 0, 1), put("3", 2, 3), lostCAS("1", "2", 4, 5), get("2", 6, 7)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistory()
			for i, c := range tt.calls {
				h.add(i, c.call, c.from, c.answer, c.to)
			}
			if err := h.Check(time.Second); (err == nil) != tt.good {
				t.Errorf("linearizable: %v, want %t", err, tt.good)
			}
		})
	}
}

// One wrong answer among thousands is found, and found quickly, whatever else is unknown.
func TestHistory_FindsOneStaleReadAmongMany(t *testing.T) {
	for _, stale := range []bool{false, true} {
		h := NewHistory()
		last := ""
		for i := range int64(5000) {
			v := strings.Repeat("x", int(i%7)) + string(rune('a'+i%26)) + time.Duration(i).String()
			switch i % 5 {
			case 0:
				h.add(1, call{Key: "k", Action: write, Value: v}, 10*i, answer{Unknown: true}, 10*i+5)
			case 1:
				found := last
				if stale && i == 4001 {
					found = "long gone"
				}
				h.add(2, call{Key: "k", Action: read}, 10*i, answer{Value: found}, 10*i+5)
			default:
				h.add(3, call{Key: "k", Action: write, Value: v}, 10*i, answer{}, 10*i+5)
				last = v
			}
		}
		if err := h.Check(10 * time.Second); (err != nil) != stale {
			t.Errorf("a stale read: %t, found: %v", stale, err)
		}
	}
}
