package cke

import (
	_ "embed"
	"errors"
	"regexp"
	"strings"
	"sync"
)

// Explanation is what a code means and what to do about it.
type Explanation struct {
	Code                   Code
	Title, Meaning, WayOut string
}

//go:embed docs/codes.md
var codesPage string

var (
	codeHeading = regexp.MustCompile(`(?m)^## (CKE\d+)\n\n`)
	codeText    = regexp.MustCompile(`^\*\*(.+?)\.\*\* (.+)\n\n(.+)\n*$`)
)

var explanations = sync.OnceValue(func() []Explanation {
	var all []Explanation
	at := codeHeading.FindAllStringSubmatchIndex(codesPage, -1)
	for i, m := range at {
		end := len(codesPage)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		e := Explanation{Code: Code(codesPage[m[2]:m[3]])}
		if t := codeText.FindStringSubmatch(strings.TrimSpace(codesPage[m[1]:end])); t != nil {
			e.Title, e.Meaning, e.WayOut = t[1], t[2], t[3]
		}
		all = append(all, e)
	}
	return all
})

// Explanations returns all codes in the order of docs/codes.md, which has the texts. Do not modify the slice.
func Explanations() []Explanation { return explanations() }

// Explain returns what a code means; false: there is no such code.
func Explain(code Code) (Explanation, bool) {
	for _, e := range explanations() {
		if e.Code == code {
			return e, true
		}
	}
	return Explanation{}, false
}

// WayOut returns what to do about a code; "" for an unexpected failure.
func WayOut(code Code) string {
	if code == CodeInternal {
		return ""
	}
	e, _ := Explain(code)
	return e.WayOut
}

// RemedyOf returns what to do about an error: the command that it names, or else what is to be done about its code.
func RemedyOf(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Try != "" {
		return e.Try
	}
	return WayOut(CodeOf(err))
}
