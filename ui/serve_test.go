package ui_test

import (
	"net/http"
	"os"
	"testing"
)

// With CKE_UI_SERVE=ADDRESS all fixtures are served there, to look at them while working on the page.
func TestServe(t *testing.T) {
	address := os.Getenv("CKE_UI_SERVE")
	if address == "" {
		t.Skip("only with CKE_UI_SERVE")
	}
	t.Fatal(http.ListenAndServe(address, page(t, everything()).Handler()))
}
