// Package damage marks errors about the content of a backup or a database, as opposed to a store or a disk that did not
// answer.
package damage

import (
	"errors"
	"fmt"
	"strings"
)

// errDamaged is what every marked error wraps.
var errDamaged = errors.New("damaged")

// Errorf returns a marked error; its text starts with "damaged: ".
func Errorf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errDamaged, fmt.Errorf(format, args...))
}

// Is reports whether err is marked, or wraps an error that is.
func Is(err error) bool { return errors.Is(err, errDamaged) }

// Why returns the text of err without the mark at its start.
func Why(err error) string { return strings.TrimPrefix(fmt.Sprint(err), errDamaged.Error()+": ") }
