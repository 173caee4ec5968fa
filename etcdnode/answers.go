package etcdnode

import (
	"archive/tar"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/docker/go-units"

	"cke"
)

// One malformed answer is a problem of the node that gave it: it is bounded in size, and whatever it makes cke do, the
// daemon leads its clusters on.

// Bounds of what is taken from others, in bytes.
const (
	// engineAnswerLimit bounds one answer of an engine: a thousand containers take some 3 MiB.
	engineAnswerLimit = 16 << 20
	// engineElementLimit bounds the objects and list elements in one answer, engineFieldLimit the fields of objects: "{}" and
	// "null" become hundreds of bytes each. A container has some 17 elements and 70 fields, a volume 4 and 8.
	engineElementLimit = 100_000
	engineFieldLimit   = 1_000_000
	// engineLineLimit bounds one message where an engine sends them one after the other, each on a line.
	engineLineLimit = 1 << 20
	// memberAnswerLimit bounds one answer of an etcd member, as a list of members: two bytes may become 200 each.
	// usersAnswerLimit is for the names of etcd's users, which are the operator's.
	memberAnswerLimit = 256 << 10
	usersAnswerLimit  = 4 << 20
)

// answerError is an answer that cannot be used.
type answerError struct{ what string }

func (e answerError) Error() string { return e.what }

// unusable reports whether an answer, and not the way to it, is what failed.
func unusable(err error) bool {
	var answer answerError
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &answer) || errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, tar.ErrHeader)
}

// bounded is the body of an engine's answer as far as it is taken.
func bounded(r *http.Request, body io.ReadCloser) io.ReadCloser {
	what := r.Method + " " + r.URL.Path
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/archive"), strings.HasSuffix(path, "/logs"), strings.HasSuffix(path, "/attach"):
		return body // whoever reads it takes a part at a time, and as much of it as is needed
	case strings.HasSuffix(path, "/events"), strings.HasSuffix(path, "/images/create"), strings.HasSuffix(path, "/images/load"):
		return &boundedBody{ReadCloser: body, what: "a message of " + what, limit: engineLineLimit, lines: true}
	}
	return &boundedBody{ReadCloser: body, what: "the answer to " + what, limit: engineAnswerLimit}
}

// boundedBody fails once more has come than the limit: since the last end of a line, where lines is set. Elsewhere it counts
// what a decoder would make of it, too.
type boundedBody struct {
	io.ReadCloser
	what  string
	limit int
	lines bool
	read  int
	jsonCount
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if b.lines {
		if i := strings.LastIndexByte(string(p[:n]), '\n'); i >= 0 {
			b.read = n - i - 1
		}
	}
	if b.read > b.limit {
		return 0, answerError{fmt.Sprintf("%s is larger than %s", b.what, units.BytesSize(float64(b.limit)))}
	}
	if !b.lines && b.count(p[:n]) {
		return 0, answerError{fmt.Sprintf("%s has more than %d elements or %d fields", b.what, engineElementLimit, engineFieldLimit)}
	}
	return n, err
}

// jsonCount counts the elements and fields of JSON as it comes in.
type jsonCount struct {
	elements, fields int
	lists            []bool // whether each of the lists and objects that are open is a list
	quoted, escaped  bool
}

// count reports whether there are too many.
func (c *jsonCount) count(part []byte) bool {
	for _, b := range part {
		switch open := len(c.lists); {
		case c.escaped:
			c.escaped = false
		case b == '\\' && c.quoted:
			c.escaped = true
		case b == '"':
			c.quoted = !c.quoted
		case c.quoted:
		case b == '{', b == '[':
			c.lists = append(c.lists, b == '[')
			c.elements++
		case open == 0:
		case b == '}', b == ']':
			c.lists = c.lists[:open-1]
		case b == ',' && c.lists[open-1]:
			c.elements++
		case b == ',':
			c.fields++
		}
	}
	return c.elements > engineElementLimit || c.fields > engineFieldLimit
}

// frames writes what a container has written to where it belongs. The library's own function makes room for what a frame
// says to hold before it has come. Source: Docker Engine API, attach, stream format.
func frames(stdout, stderr io.Writer, r io.Reader) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // cut off by the limit, or by the end of the log
		} else if err != nil {
			return err
		}
		to := stdout
		switch head[0] {
		case 0, 1:
		case 2:
			to = stderr
		default:
			return answerError{fmt.Sprintf("a log has no stream %d", head[0])}
		}
		if _, err := io.CopyN(to, r, int64(binary.BigEndian.Uint32(head[4:]))); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// faults turns panics into errors.
type faults struct {
	log  *slog.Logger
	mu   sync.Mutex
	told map[string]bool // what was logged with its stack: a node is observed every few seconds
}

// mostFaults bounds how many different ones are told apart.
const mostFaults = 100

// catch is deferred where something is done for one node or member: a panic is its error.
func (f *faults) catch(doing string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = &cke.Error{Code: cke.CodeAnswer, What: fmt.Sprintf("%s: fault in cke: %v", doing, p)}
	text := (*err).Error()
	f.mu.Lock()
	first := !f.told[text] && len(f.told) < mostFaults
	if first {
		if f.told == nil {
			f.told = map[string]bool{}
		}
		f.told[text] = true
	}
	f.mu.Unlock()
	if first {
		f.log.Error("panic while working on one node; the other nodes are not affected", "doing", doing, "panic", p, "stack", string(debug.Stack()))
	}
}
