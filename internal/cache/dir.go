// Package cache finds the directory of what tests and the lab build.
package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir returns where built things are kept between runs: $CKE_CACHE, or cke below the user's cache directory. It makes
// the directory.
func Dir() (string, error) {
	dir := os.Getenv("CKE_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory, set CKE_CACHE: %w", err)
		}
		dir = filepath.Join(base, "cke")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}
