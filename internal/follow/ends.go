package follow

import (
	"fmt"

	"cke"
	"cke/internal/term"
)

// SameSpec ends the following once the cluster is to be deleted, and says so when another revision is set meanwhile.
func (f *Follower) SameSpec(newest int64) func(cke.Spec) error {
	return func(now cke.Spec) error {
		switch {
		case now.Generation == 0:
			return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("cluster %s was deleted meanwhile", f.Cluster)}
		case now.Deleting():
			return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("%s asked meanwhile for cluster %s to be deleted", now.DeleteRequestedBy, f.Cluster)}
		case now.Generation > newest:
			newest = now.Generation
			f.Tell.out.Print(term.Clean(fmt.Sprintf("%s set revision %d meanwhile; cke works on that one", now.SetBy, newest)))
		}
		return nil
	}
}

// DeclaredStill ends the following of anything once the cluster is gone or to be deleted.
func DeclaredStill(cluster string) func(cke.Spec) error {
	return func(now cke.Spec) error {
		switch {
		case now.Generation == 0:
			return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("cluster %s was deleted meanwhile", cluster)}
		case now.Deleting():
			return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("%s asked meanwhile for cluster %s to be deleted", now.DeleteRequestedBy, cluster)}
		}
		return nil
	}
}
