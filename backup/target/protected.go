package target

import (
	"fmt"
	"strings"

	"cke/backup"
)

// protected makes backup.ErrProtected of a refusal to delete that comes of a lock, a legal hold or a retention of the object
// store. They have no code of their own in S3, and another one with each provider, so that their words must decide.
//
// Source: S3 and versitygw "object protected by object lock"; MinIO "Object is WORM protected"; GCS "retentionPolicyNotMet",
// "objectUnderActiveHold"; Azure "BlobImmutableDueToPolicy", "This operation is not permitted as the blob is immutable".
func protected(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ToLower(err.Error())
	for _, words := range []string{"object lock", "objectlocked", "worm protected", "retentionpolicynotmet", "retention policy", "underactivehold", "event-based hold", "temporary hold", "legal hold", "immutab"} {
		if strings.Contains(text, words) {
			return fmt.Errorf("%w: %w", backup.ErrProtected, err)
		}
	}
	return err
}
