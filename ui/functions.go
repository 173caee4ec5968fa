package ui

import (
	"html/template"
	"regexp"
	"strings"
	"unicode/utf8"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

// functions are what the templates call.
func (p *Page) functions() template.FuncMap {
	return template.FuncMap{
		"cut":     func(v string) string { return cut(shownText, v) },
		"cutat":   func(n int, v string) string { return cut(n, v) },
		"count":   cke.Count[int],
		"live":    func(id string) bool { return strings.HasSuffix(id, "headline") },
		"moment":  words.Moment,
		"summary": summary,
		"last": func(text string) string {
			if text = cut(shownText, text); text != "" {
				text = "Last seen: " + text + "."
			}
			return text
		},
		"rest":   rest,
		"code":   func(v string) template.HTML { return coded(shownText, v) },
		"codeat": func(n int, v string) template.HTML { return coded(n, v) },
		"prose":  prose,
		"words":  func(command string) []string { return strings.Split(cut(shownText, command), " ") },
		"zones":  words.AllZones, "zone": words.Zone, "unplaced": words.Unplaced,
		"outcome": func(s cke.RecordState, refused bool) string { return class(words.OutcomeStyle(s, refused)) },
	}
}

// cut cleans a text from outside, and shortens it to about n bytes.
func cut(n int, text string) string {
	short := len(text) > n
	if short {
		for text = text[:n]; len(text) > 0 && !utf8.ValidString(text); {
			text = text[:len(text)-1]
		}
	}
	if text = term.Clean(text); short {
		text += " …"
	}
	return text
}

// tolerance is the part of a summary that says how many members can be lost.
var tolerance = regexp.MustCompile(`can lose \d+ more members?(, and any one zone)?`)

// summary is the summary as a sentence, with the tolerance in bold.
func summary(text string) template.HTML {
	text = cut(shownText, text)
	if text == "" {
		return ""
	}
	text = upper(text)
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	at := tolerance.FindStringIndex(text)
	if at == nil {
		return coded(2*shownText, text)
	}
	return coded(2*shownText, text[:at[0]]) + template.HTML("<b>"+text[at[0]:at[1]]+"</b>") + coded(2*shownText, text[at[1]:])
}

// noQuorum is what a reason says of a lost quorum, which the summary says with how many members serve.
var noQuorum = regexp.MustCompile(`^quorum is lost, \d+ of \d+ members run and \d+ (?:is|are) needed: `)

// rest is a reason without what the summary says in other numbers.
func rest(reason string) string { return noQuorum.ReplaceAllString(reason, "") }

// prose is a text with commands in backticks, as a sentence.
func prose(text string) template.HTML {
	return coded(2*shownText, upper(cut(shownText, text)))
}

// coded is a text from outside, cut, with what is in backticks as code.
func coded(n int, text string) template.HTML {
	var b strings.Builder
	pieces := strings.Split(cut(n, text), "`")
	for i, piece := range pieces {
		switch piece = template.HTMLEscapeString(piece); {
		case i%2 == 1 && i+1 < len(pieces):
			piece = "<code>" + piece + "</code>"
		case i%2 == 1:
			piece = "`" + piece // it is not closed
		}
		b.WriteString(piece)
	}
	return template.HTML(b.String())
}

// upper starts a text with a capital letter, unless that is the start of a command or a name.
func upper(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if first == "" || strings.ToLower(first) != first || strings.ContainsAny(first, "0123456789`") || first == "ckecli" {
		return text
	}
	_, size := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:size]) + text[size:]
}

// Class is the class of the health.
func (f facts) Class() string { return f.row().Class() }

// Mark is the shape of the health; a status that is not of the present is unknown.
func (f facts) Mark() string {
	if f.Past() {
		return "unknown"
	}
	return f.row().Mark()
}

// MarkClass is the class of the mark.
func (f facts) MarkClass() string { return f.row().MarkClass() }

func (f facts) row() row {
	return row{clock: f.clock, Name: f.Name, report: report{S: f.S}, Known: f.Known}
}

// ProblemClass is the class of the problems.
func (f facts) ProblemClass() string {
	if c := f.Class(); c == "bad" {
		return c
	}
	return "warn"
}

// Running reports whether an operation is under way.
func (f facts) Running() bool {
	return f.S.Operation != nil && f.S.Operation.State == cke.RecordRunning
}
