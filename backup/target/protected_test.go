package target

import (
	"errors"
	"testing"

	"cke/backup"
)

func TestProtected_KnowsLocksOfObjectStoresFromOtherRefusals(t *testing.T) {
	for text, want := range map[string]bool{
		"api error AccessDenied: Access Denied because object protected by object lock.":                                true,
		"api error InvalidRequest: Object is WORM protected and cannot be overwritten":                                  true,
		"googleapi: Error 403: Object 'b/x' is subject to bucket's retention policy and cannot be deleted":              true,
		"googleapi: Error 403: Object 'b/x' is under active Event-Based hold and cannot be deleted":                     true,
		"googleapi: Error 403: Object 'b/x' cannot be deleted, objectUnderActiveHold":                                   true,
		"RESPONSE 409: ERROR CODE: BlobImmutableDueToPolicy":                                                            true,
		"api error AccessDenied: Access Denied":                                                                         false,
		"googleapi: Error 403: robot@x does not have storage.objects.delete access to the Google Cloud Storage object.": false,
		"dial tcp 10.0.0.1:443: connect: connection refused":                                                            false,
	} {
		if got := protected(errors.New(text)); errors.Is(got, backup.ErrProtected) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if protected(nil) != nil {
		t.Error("nil")
	}
}
