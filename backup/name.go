package backup

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kind is what an object holds.
type Kind string

// Kinds of objects.
const (
	KindFull  Kind = "full"
	KindDelta Kind = "delta"
)

const (
	suffix     = ".cke"
	timeLayout = "20060102T150405.000Z"
)

// MostSequence is the last number that a name has room for.
const MostSequence = 9_999_999_999

// Place is where an object is stored; its name contains all of it.
//
//	CLUSTER/LINEAGE/full/REVISION-TIME.cke
//	CLUSTER/LINEAGE/delta/STREAM/SEQUENCE-FIRST.cke
//
// A stream is an unbroken run of deltas, named by its first revision. The name of the next delta of a stream follows from
// the one before it, so two writers can never both extend a stream: the second finds the name taken.
type Place struct {
	Cluster string `json:"cluster"`
	Lineage string `json:"lineage"`
	Kind    Kind   `json:"kind"`
	// Revision is a full's revision, or the first revision of a delta.
	Revision int64 `json:"revision"`
	// Time is when a full's snapshot was started, in milliseconds of UTC; zero for a delta.
	Time time.Time `json:"time,omitzero"`
	// Stream is the first revision of the delta's stream, Sequence counts its deltas from 0. Both are zero for a full.
	Stream   int64 `json:"stream,omitempty"`
	Sequence int64 `json:"sequence,omitempty"`
}

// FullPlace returns the place of a full.
func FullPlace(cluster, lineage string, revision int64, t time.Time) Place {
	return Place{Cluster: cluster, Lineage: lineage, Kind: KindFull, Revision: revision, Time: t.UTC().Truncate(time.Millisecond)}
}

// DeltaPlace returns the place of a delta.
func DeltaPlace(cluster, lineage string, stream, sequence, first int64) Place {
	return Place{Cluster: cluster, Lineage: lineage, Kind: KindDelta, Revision: first, Stream: stream, Sequence: sequence}
}

// Name returns the object's name.
func (p Place) Name() string {
	if p.Kind == KindFull {
		return fmt.Sprintf("%s/%s/full/%020d-%s%s", p.Cluster, p.Lineage, p.Revision, p.Time.UTC().Format(timeLayout), suffix)
	}
	return fmt.Sprintf("%s/%s/delta/%020d/%010d-%020d%s", p.Cluster, p.Lineage, p.Stream, p.Sequence, p.Revision, suffix)
}

// ID returns the name of a full in output and commands: `LINEAGE/REVISION-TIME`.
func (p Place) ID() string {
	return p.Lineage + "/" + strings.TrimSuffix(path.Base(p.Name()), suffix)
}

var (
	fullName  = regexp.MustCompile(`^([^/]+)/([^/]+)/full/(\d{20})-(\d{8}T\d{6}\.\d{3}Z)\.cke$`)
	deltaName = regexp.MustCompile(`^([^/]+)/([^/]+)/delta/(\d{20})/(\d{10})-(\d{20})\.cke$`)
	plainWord = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$`)
)

// ParsePlace parses a name; it returns false if that is not the name of a backup object.
func ParsePlace(name string) (Place, bool) {
	if m := fullName.FindStringSubmatch(name); m != nil {
		rev, err := strconv.ParseInt(m[3], 10, 64)
		t, err2 := time.Parse(timeLayout, m[4])
		return FullPlace(m[1], m[2], rev, t), err == nil && err2 == nil && rev > 0
	}
	if m := deltaName.FindStringSubmatch(name); m != nil {
		stream, err := strconv.ParseInt(m[3], 10, 64)
		seq, err2 := strconv.ParseInt(m[4], 10, 64)
		first, err3 := strconv.ParseInt(m[5], 10, 64)
		ok := err == nil && err2 == nil && err3 == nil && stream > 0 && first >= stream
		return DeltaPlace(m[1], m[2], stream, seq, first), ok
	}
	return Place{}, false
}

// CheckNames refuses names of a cluster or an incarnation that cannot be folders.
func CheckNames(cluster, lineage string) error {
	for _, s := range []string{cluster, lineage} {
		if !plainWord.MatchString(s) {
			return fmt.Errorf("%q cannot name a cluster or an incarnation in a backup target: use letters, digits, '.', '_' and '-'", s)
		}
	}
	return nil
}

// lineageOf is the lineage of a full, by its ID.
func lineageOf(id string) string {
	lineage, _, _ := strings.Cut(id, "/")
	return lineage
}
