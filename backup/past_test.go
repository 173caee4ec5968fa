package backup_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// onRecord is a store that has one cluster.
type onRecord struct {
	id     cke.Identity
	status cke.Status
}

func (r onRecord) Identity(context.Context, string) (cke.Identity, error) { return r.id, nil }
func (r onRecord) Status(context.Context, string) (cke.Status, error)     { return r.status, nil }

// stored is a status that knows of backups of these lineages.
func stored(lineages ...string) cke.Status {
	return cke.Status{Targets: []cke.BackupTarget{{URL: "file:///a", ID: "M1", Lineages: lineages}}}
}

// The backups of any later life that were stored and are missing hold a state of an earlier one back, not only those of the present one.
func TestFind_RefusesAStateBeforeALifeWhoseBackupsAreMissing(t *testing.T) {
	f := makeFixture(t, false) // lineage a1b2
	present := func(id string, state cke.IncarnationState, replaced ...string) cke.Identity {
		return cke.Identity{Incarnation: &cke.Incarnation{ID: id, State: state, Replaced: replaced}}
	}
	declared := func(was cke.Identity) cke.Identity { return was.Awaiting(time.Now()) }
	for name, c := range map[string]struct {
		id     cke.Identity
		status cke.Status
		lost   string // lineage that the refusal names; "": there is none
		noted  bool
	}{
		"the present one is there":          {present("a1b2", cke.Formed), stored("a1b2"), "", false},
		"nothing later was stored":          {present("life3", cke.Formed, "a1b2", "life2"), stored("a1b2"), "", true},
		"the present one was stored":        {present("life3", cke.Formed, "a1b2", "life2"), stored("a1b2", "life3"), "life3", false},
		"one between was stored":            {present("life3", cke.Formed, "a1b2", "life2"), stored("a1b2", "life2"), "life2", false},
		"one before was stored":             {present("life3", cke.Formed, "life0", "a1b2"), stored("life0", "a1b2"), "", true},
		"declared, and the last one":        {declared(present("a1b2", cke.Formed)), cke.Status{}, "", false},
		"declared twice, and the last one":  {declared(declared(present("a1b2", cke.Formed))), cke.Status{}, "", false},
		"declared, after a later one":       {declared(present("life2", cke.Formed, "a1b2")), cke.Status{}, "life2", false},
		"declared twice, after a later one": {declared(declared(present("life2", cke.Formed, "a1b2"))), cke.Status{}, "life2", false},
		"declared, of nothing known":        {declared(cke.Identity{}), cke.Status{}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := f.store(t, f.bucket)
			s.Past = backup.OnRecord(t.Context(), onRecord{c.id, c.status}, "prod", "file:///a")
			found, err := s.Find(t.Context(), backup.At{})
			if c.lost != "" {
				if !errors.Is(err, backup.ErrLost) || !strings.Contains(err.Error(), ", "+c.lost+",") || !strings.Contains(err.Error(), "--lineage a1b2") {
					t.Errorf("%+v, %v", found, err)
				}
			} else if err != nil || found.Lineage != "a1b2" || (len(found.Notes) > 0) != c.noted {
				t.Errorf("%+v, %v", found, err)
			}
			if found, err := s.Find(t.Context(), backup.At{Lineage: "a1b2"}); err != nil || len(found.Notes) > 0 {
				t.Errorf("named: %+v, %v", found, err)
			}
		})
	}
}

// Who can write to a target makes no backups of the present life where those of others are signed: nobody restores them without naming them.
func TestFind_ReadsNoUnsignedLifeBesideSignedOnes(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	h, err := backup.ReadHeader(ctx, f.bucket, place(t, fulls[1]))
	if err != nil {
		t.Fatal(err)
	}
	whole, b := f.bucket.Get(fulls[1]), f.bucket.Clone()
	h.Signature, h.Signer, h.Place = nil, nil, backup.FullPlace("prod", "ffff", h.Last, h.Place.Time.Add(time.Hour))
	content, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, h.Place.Name(), content); err != nil {
		t.Fatal(err)
	}
	s := f.guarded(t, b, signer)
	got := func(at backup.At) (lineage string, notes string, err error) {
		found, err := s.Find(ctx, at)
		x, again := s.Extract(ctx, at, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{CheckHash: true})
		if found.Lineage != x.Lineage || (err == nil) != (again == nil) {
			t.Errorf("found %+v, %v; extracted from %s, %v", found, err, x.Lineage, again)
		}
		return found.Lineage, strings.Join(found.Notes, "; "), err
	}
	for name, c := range map[string]struct {
		lives  []string
		stored map[string]int64
	}{
		"never stored":                {[]string{"ffff", "a1b2"}, nil},
		"stored":                      {[]string{"ffff", "a1b2"}, map[string]int64{"ffff": 0, "a1b2": 0}},
		"between":                     {[]string{"eeee", "ffff", "a1b2"}, map[string]int64{"a1b2": 0}},
		"of a cluster with no others": {[]string{"ffff"}, nil},
	} {
		s.Lives, s.Stored = c.lives, c.stored
		lineage, _, err := got(backup.At{})
		if !errors.Is(err, backup.ErrLost) || !strings.Contains(err.Error(), "signed") || !strings.Contains(err.Error(), "--lineage ffff") || !strings.Contains(err.Error(), "--lineage a1b2") {
			t.Errorf("%s: lineage %q, %v", name, lineage, err)
		}
		if lineage, notes, err := got(backup.At{Lineage: "ffff"}); err != nil || lineage != "ffff" || !strings.Contains(notes, "is not signed") {
			t.Errorf("%s: named: lineage %q, notes %q, %v", name, lineage, notes, err)
		}
	}
	for name, lives := range map[string][]string{"not known": nil, "older": {"a1b2", "ffff"}, "foreign": {"a1b2"}} {
		s.Lives, s.Stored = lives, map[string]int64{}
		for _, life := range lives {
			s.Stored[life] = 0
		}
		if lineage, notes, err := got(backup.At{}); err != nil || lineage != "a1b2" || (lives == nil) != strings.Contains(notes, "incarnations ffff") {
			t.Errorf("%s: lineage %q, notes %q, %v", name, lineage, notes, err)
		}
	}
	s.Lives, s.AllowUntrusted = []string{"ffff", "a1b2"}, true
	if lineage, _, err := got(backup.At{}); err != nil || lineage != "ffff" {
		t.Errorf("accepted: lineage %q, %v", lineage, err)
	}
}

// More was stored than the target leads to: its newest state is restored only if it is named.
func TestFind_RefusesTheNewestStateIfALaterOneWasStored(t *testing.T) {
	f := makeFixture(t, false) // lineage a1b2
	at, id := time.Now().Add(time.Hour), cke.Identity{Incarnation: &cke.Incarnation{ID: "life2", State: cke.Formed, Replaced: []string{"a1b2"}}}
	s := f.store(t, f.bucket)
	s.Now = func() time.Time { return at }
	for _, stored := range []int64{f.last, f.last + 1} {
		status := cke.Status{Targets: []cke.BackupTarget{{URL: "file:///a", ID: "M1", Lineages: []string{"a1b2"}, Revisions: map[string]int64{"a1b2": stored}}}}
		if s.Past = backup.OnRecord(t.Context(), onRecord{id, status}, "prod", "file:///a"); s.Unread != nil {
			t.Fatal(s.Unread)
		}
		missing := stored > f.last
		for what, c := range map[string]struct {
			at             backup.At
			refused, noted bool
		}{
			"the newest":             {backup.At{}, missing, false},
			"a time after it":        {backup.At{Time: at}, missing, false},
			"named":                  {backup.At{Lineage: "a1b2"}, false, missing},
			"a time after it, named": {backup.At{Lineage: "a1b2", Time: at}, false, missing},
			"its revision":           {backup.At{Revision: f.last}, false, missing},
			"an earlier one":         {backup.At{Revision: f.fulls[0]}, false, missing},
		} {
			found, err := s.Find(t.Context(), c.at)
			if errors.Is(err, backup.ErrLost) != c.refused || !c.refused && (err != nil || found.Revision == 0) {
				t.Errorf("%d stored, %s: %+v, %v", stored, what, found, err)
			}
			if c.refused && !strings.Contains(err.Error(), "--lineage a1b2") {
				t.Errorf("%d stored, %s: no way out: %v", stored, what, err)
			}
			if noted := strings.Contains(strings.Join(found.Notes, " "), "were stored up to revision"); noted != c.noted {
				t.Errorf("%d stored, %s: %q", stored, what, found.Notes)
			}
		}
	}
}

// Another target led to a later revision of this incarnation, as one that an operator left because of another history. The one
// that is read is whole: its newest state is restored, with a note. A target that is not on record may be a copy of either.
func TestFind_GoesByTheRecordOfTheTargetThatIsRead(t *testing.T) {
	f := makeFixture(t, false) // lineage a1b2
	id := cke.Identity{Incarnation: &cke.Incarnation{ID: "a1b2", State: cke.Formed}}
	target := func(url, id string, revision int64) cke.BackupTarget {
		return cke.BackupTarget{URL: url, ID: id, Lineages: []string{"a1b2"}, Revisions: map[string]int64{"a1b2": revision}}
	}
	for name, c := range map[string]struct {
		url, id        string
		here           int64
		refused, noted bool
	}{
		"it is whole":               {"file:///b", "M2", f.last, false, true},
		"it is written otherwise":   {"file:///b/", "M2", f.last, false, true},
		"it is not":                 {"file:///b", "M2", f.last + 1, true, false},
		"it is the other one moved": {"file:///b", "M1", f.last, true, false},
		"it is not on record":       {"file:///c", "M2", f.last, true, false},
	} {
		s := f.store(t, f.bucket)
		status := cke.Status{Targets: []cke.BackupTarget{target("file:///a", "M1", f.last+1000), target("file:///b", c.id, c.here)}}
		s.Past = backup.OnRecord(t.Context(), onRecord{id, status}, "prod", c.url)
		found, err := s.Find(t.Context(), backup.At{})
		if errors.Is(err, backup.ErrLost) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if noted := strings.Contains(strings.Join(found.Notes, " "), "in another target, file:///a,"); noted != c.noted {
			t.Errorf("%s: %q", name, found.Notes)
		}
	}
}

// A store from before a restore does not know the incarnation that came from it. That one's backups are evidence, if a trusted key signed them.
func TestFind_RefusesAStateThatAnUnknownIncarnationReplaced(t *testing.T) {
	f, signer := signedFixture(t) // incarnation a1b2
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	add := func(b *backuptest.Memory, signer *backup.Signer, name string, origin *backup.Origin) *backuptest.Memory {
		t.Helper()
		h, err := backup.ReadHeader(ctx, f.bucket, place(t, fulls[1]))
		if err != nil {
			t.Fatal(err)
		}
		whole := f.bucket.Get(fulls[1])
		h.Signature, h.Signer, h.Origin = nil, signer, origin
		h.Place = backup.FullPlace("prod", name, h.Last, h.Place.Time.Add(time.Hour))
		content, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Create(ctx, h.Place.Name(), content); err != nil {
			t.Fatal(err)
		}
		return b
	}
	from := func(lineage, replaces string) *backup.Origin {
		return &backup.Origin{Lineage: lineage, Revision: 5, Replaces: replaces}
	}
	after := func(lineage string, replaced ...string) *backup.Origin {
		return &backup.Origin{Lineage: lineage, Revision: 5, Replaces: replaced[len(replaced)-1], Replaced: replaced}
	}
	of := func(lives ...string) backup.Past { return backup.Past{Lives: lives} }
	for name, c := range map[string]struct {
		bucket *backuptest.Memory
		past   backup.Past
		newest string // that the refusal names; "": there is none
	}{
		"it replaced the present one":         {add(f.bucket.Clone(), signer, "bbbb", from("a1b2", "a1b2")), of("a1b2"), "bbbb"},
		"it was restored without a store":     {add(f.bucket.Clone(), signer, "bbbb", from("a1b2", "9999")), of("a1b2"), "bbbb"},
		"it was restored from an older one":   {add(f.bucket.Clone(), signer, "bbbb", from("9999", "a1b2")), of("a1b2"), "bbbb"},
		"one after the other":                 {add(add(f.bucket.Clone(), signer, "bbbb", from("a1b2", "a1b2")), signer, "cccc", from("bbbb", "bbbb")), of("a1b2"), "cccc"},
		"one between has no backups":          {add(f.bucket.Clone(), signer, "bbbb", after("0000", "a1b2", "9999")), of("a1b2"), "bbbb"},
		"and both are unknown":                {add(add(f.bucket.Clone(), signer, "cccc", from("a1b2", "a1b2")), signer, "bbbb", after("cccc", "a1b2", "cccc")), of("a1b2"), "bbbb"},
		"it is on record":                     {add(f.bucket.Clone(), signer, "bbbb", from("a1b2", "a1b2")), of("bbbb", "a1b2"), ""},
		"it came from one that was replaced":  {add(f.bucket.Clone(), signer, "bbbb", from("9999", "9999")), of("a1b2", "9999"), ""},
		"it came from nothing that is known":  {add(f.bucket.Clone(), signer, "bbbb", nil), of("a1b2"), ""},
		"it is not signed by a trusted key":   {add(f.bucket.Clone(), nil, "bbbb", from("a1b2", "a1b2")), of("a1b2"), ""},
		"no store is at hand, so it is taken": {add(f.bucket.Clone(), signer, "bbbb", from("a1b2", "a1b2")), of(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := f.guarded(t, c.bucket, signer)
			s.Past = c.past
			found, err := s.Find(ctx, backup.At{})
			if c.newest == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, backup.ErrLost) || !strings.Contains(err.Error(), "--lineage "+c.newest) || !strings.Contains(err.Error(), "--lineage a1b2") {
				t.Errorf("%+v, %v", found, err)
			}
			for _, l := range []string{"a1b2", c.newest} {
				if found, err := s.Find(ctx, backup.At{Lineage: l}); err != nil || found.Lineage != l {
					t.Errorf("named: %+v, %v", found, err)
				}
			}
		})
	}
}

// Of the unknown incarnation only deltas are left: a full was deleted, or is on its way. They are evidence as a full is, if they are signed.
func TestFind_RefusesAStateThatAnIncarnationOfDeltasReplaced(t *testing.T) {
	f, signer := signedFixture(t) // incarnation a1b2
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	for name, by := range map[string]*backup.Signer{"signed": signer, "unsigned": nil} {
		b, p := f.bucket.Clone(), place(t, deltas[len(deltas)-1])
		h, err := backup.ReadHeader(ctx, b, p)
		if err != nil {
			t.Fatal(err)
		}
		whole := b.Get(p.Name())
		h.Place = backup.DeltaPlace("prod", "bbbb", p.Stream, p.Sequence, p.Revision)
		h.Signature, h.Signer, h.Origin = nil, by, &backup.Origin{Lineage: "a1b2", Revision: 5, Replaces: "a1b2"}
		content, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
		if err == nil {
			err = b.Create(ctx, h.Place.Name(), content)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := f.guarded(t, b, signer)
		s.Past = backup.Past{Lives: []string{"a1b2"}}
		found, err := s.Find(ctx, backup.At{})
		if by == nil {
			if err != nil || found.Lineage != "a1b2" {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
			continue
		}
		if !errors.Is(err, backup.ErrLost) || !strings.Contains(err.Error(), "incarnation bbbb") || strings.Contains(err.Error(), "--lineage bbbb") ||
			!strings.Contains(err.Error(), "--lineage a1b2") {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if found, err := s.Find(ctx, backup.At{Lineage: "a1b2"}); err != nil || found.Lineage != "a1b2" {
			t.Errorf("%s: named: %+v, %v", name, found, err)
		}
	}
}
