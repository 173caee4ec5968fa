package sabakan

import (
	"fmt"

	"cke"
)

// Source is an inventory with a name for operators, which has no password in it.
type Source interface {
	cke.Inventory
	fmt.Stringer
}

// Open returns the inventory of a kind at a URL, or, if it is a file, at a path. parse is for NewFile.
func Open(source cke.InventorySource, url string, parse func(file string, data []byte) ([]cke.Host, error)) (Source, error) {
	if source == cke.SourceFile {
		return NewFile(url, parse)
	}
	return NewServer(url)
}
