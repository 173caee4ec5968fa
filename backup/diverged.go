package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// fileDiverged says that the cluster's history is another one than that of a lineage's backups: the backups are not continued.
const fileDiverged FileKind = "diverged"

// Divergence records that the cluster's history differs from that of its backups, and how that was found.
type Divergence struct {
	At time.Time `json:"at"`
	// Revision is the newest revision of the backups when the divergence was found.
	Revision int64  `json:"revision"`
	Why      string `json:"why"`
}

// MarkDiverged records a divergence beside the backups. The record remains for the rest of the incarnation.
func (s *Store) MarkDiverged(ctx context.Context, lineage string, d Divergence) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.PutFile(ctx, lineage, fileDiverged, data)
}

// Diverged returns what MarkDiverged recorded, or nil. A record that cannot be read counts. trusted reports whether it is
// signed by a trusted key.
func (s *Store) Diverged(ctx context.Context, lineage string) (found *Divergence, trusted bool, err error) {
	name, trusted, err := s.record(ctx, lineage, fileDiverged)
	if err != nil || name == "" {
		return nil, false, err
	}
	data, err := s.readFile(ctx, name)
	if err = s.confirmed(ctx, name, err); err != nil && !IsDamage(err) && !errors.Is(err, errListed) {
		return nil, false, ignoreMissingObject(err)
	}
	var d Divergence
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		d.Why = fmt.Sprintf("its record cannot be read: %v", err)
	}
	return &d, trusted, nil
}
