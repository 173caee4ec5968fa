package backup

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Records of a write-ahead log, and fields of what they hold. Source: etcd, storage/wal and raft, the same in 3.5 to 3.7.
const (
	logMetadata = 1
	logEntry    = 2
	logState    = 3
	logChecksum = 4
	logSnapshot = 5
)

var logFile = regexp.MustCompile(`^([0-9a-f]{16})-([0-9a-f]{16})\.wal$`)

// logReader reads a member's write-ahead log from about the entry on that its database holds last.
type logReader struct {
	applied, last, commit uint64
	// after says of each entry after applied whether it is a request, which may change data; others change members or nothing.
	after []bool
	// received is a snapshot that a leader sent and that is not the database yet; 0: none.
	received uint64
	// v2 is set by a request that writes a key of the v2 API, which may have been deleted since.
	v2      bool
	sum     uint32
	chained bool
}

// checkMember refuses a member whose log has requests after the entry that its database holds last, as after a crash: etcd
// applies them when it starts. It refuses keys of the v2 API, which no database holds, and what it cannot read, too.
func checkMember(ctx context.Context, member string, applied uint64) error {
	snapshot, keys, err := readV2(filepath.Join(member, "snap"))
	if err != nil {
		return err
	}
	dir := filepath.Join(member, "wal")
	files, err := logFiles(dir, min(applied, snapshot))
	if err != nil {
		return err
	}
	l := &logReader{applied: applied}
	for _, name := range files {
		if err := l.read(ctx, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	requests, committed := 0, 0
	for i, is := range l.after {
		if is {
			requests++
			if applied+uint64(i)+1 <= l.commit {
				committed++
			}
		}
	}
	switch {
	case keys || l.v2:
		return &ImportRefusal{What: member + " has keys of etcd's v2 API, or had some before they were deleted, and no database of etcd 3 holds such keys",
			Try: "with etcd 3.5, copy those that are needed to the v3 API; then take a snapshot, which leaves them out: etcdctl snapshot save FILE"}
	case requests > 0:
		return noLog(dir, fmt.Sprintf("the log has %d requests that the database does not hold yet, %d of them known to be committed", requests, committed))
	case l.received > applied:
		return noLog(dir, "the log has received a snapshot that the database does not hold yet")
	case l.last < applied:
		return noLog(dir, fmt.Sprintf("the log ends with entry %d, before the database's %d: they are not of one time", l.last, applied))
	}
	return nil
}

// logFiles are the files of a log from the one on that has the entry after a given one, in order.
func logFiles(dir string, after uint64) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var files []string
	next := uint64(0)
	for _, e := range entries { // sorted
		m := logFile.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		sequence, err := strconv.ParseUint(m[1], 16, 64)
		first, err2 := strconv.ParseUint(m[2], 16, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		if next > 0 && sequence != next {
			return nil, noLog(dir, "files are missing before "+e.Name())
		}
		next = sequence + 1
		if first <= after+1 {
			files = nil
		} else if files == nil {
			return nil, noLog(dir, fmt.Sprintf("the log starts with entry %d, and a snapshot or the database ends with %d", first, after))
		}
		files = append(files, e.Name())
	}
	if files == nil {
		return nil, &ImportRefusal{What: dir + " has no write-ahead log, and without it nothing shows that the database has all that was acknowledged",
			Try: "if etcd ran with --wal-dir, make a link to that directory there"}
	}
	return files, nil
}

// read reads one file.
func (l *logReader) read(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(&contextReader{ctx, f}, 1<<16)
	for at := int64(0); ; {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return l.broken(path, at, err)
		}
		frame := binary.LittleEndian.Uint64(head[:])
		if frame == 0 {
			return nil // the rest is room for more
		}
		size, padding := int64(frame<<8>>8), int64(0)
		if frame>>63 == 1 {
			padding = int64(frame >> 56 & 7)
		}
		if size+padding > info.Size()-at {
			return l.broken(path, at, io.ErrUnexpectedEOF)
		}
		record := make([]byte, size+padding)
		if _, err := io.ReadFull(r, record); err != nil {
			return l.broken(path, at, err)
		}
		if err := l.record(record[:size]); err != nil {
			return l.broken(path, at, err)
		}
		at += int64(len(head)) + size + padding
	}
}

// broken is the refusal of a file that cannot be read to its end, which etcd may be able to repair.
func (l *logReader) broken(path string, at int64, err error) error {
	if !IsDamage(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return noLog(path, fmt.Sprintf("the log is damaged at byte %d (%v)", at, err))
}

func (l *logReader) record(b []byte) error {
	var kind, sum uint64
	var data []byte
	if !eachField(b, func(field, number uint64, bytes []byte) {
		switch field {
		case 1:
			kind = number
		case 2:
			sum = number
		case 3:
			data = bytes
		}
	}) {
		return damaged("not a record")
	}
	if kind == logChecksum {
		if l.chained && l.sum != uint32(sum) {
			return damaged("the file does not continue the one before")
		}
		l.sum, l.chained = uint32(sum), true
		return nil
	}
	if l.sum = crc32.Update(l.sum, castagnoli, data); l.sum != uint32(sum) {
		return damaged("a record does not match its checksum")
	}
	var numbers [4]uint64 // fields 1 to 3
	var content []byte    // field 4
	if kind != logMetadata && !eachField(data, func(field, number uint64, bytes []byte) {
		if field > 0 && field < 4 {
			numbers[field] = number
		}
		if field == 4 {
			content = bytes
		}
	}) {
		return damaged("a record cannot be read")
	}
	switch kind {
	case logMetadata:
	case logState: // term, vote, commit
		l.commit = numbers[3]
	case logSnapshot: // index, term
		l.last, l.received = max(l.last, numbers[1]), max(l.received, numbers[1])
	case logEntry: // type, term, index, data
		const normal = 0
		request := len(content) > 0 && numbers[1] == normal
		l.v2 = l.v2 || request && changesV2(content)
		return l.entry(numbers[3], request)
	default:
		return damaged("a record has the unknown type %d", kind)
	}
	return nil
}

// entry takes in an entry, which replaces those that were written before with its index and after.
func (l *logReader) entry(index uint64, request bool) error {
	l.last = index
	if index <= l.applied {
		l.after = nil
		return nil
	}
	at := index - l.applied - 1
	if at > uint64(len(l.after)) {
		return damaged("entries before %d are missing", index)
	}
	l.after = append(l.after[:at], request)
	return nil
}

// changesV2 reports whether a request writes a key of the v2 API: as it is, or within a request of etcd 3.
// Source: etcd 3.5, etcdserverpb.Request and InternalRaftRequest.
func changesV2(request []byte) bool {
	var second, third []byte // of a request as it is: method and path
	fields := func(b []byte) bool {
		second, third = nil, nil
		return eachField(b, func(field, _ uint64, data []byte) {
			switch field {
			case 2:
				second = data
			case 3:
				third = data
			}
		})
	}
	writes := func() bool {
		return (string(second) == "PUT" || string(second) == "POST") && strings.HasPrefix(string(third), "/1/")
	}
	return fields(request) && (writes() || fields(second) && writes())
}

// readV2 returns the index of a member's newest snapshot, and whether its store for the v2 API has keys of clients. Later ones than 3.7
// write none.
func readV2(dir string) (index uint64, keys bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.snap"))
	if err != nil || len(files) == 0 {
		return 0, false, err
	}
	newest := slices.Max(files)
	data, err := os.ReadFile(newest)
	if err != nil {
		return 0, false, err
	}
	// Fields of snappb.Snapshot, and of raft's snapshot and its metadata within.
	const crc, content, text, metadata, at = 1, 2, 1, 2, 2
	var snapshot, doc, about []byte
	sum := uint32(0)
	sound := eachField(data, func(field, number uint64, b []byte) {
		switch field {
		case crc:
			sum = uint32(number)
		case content:
			snapshot = b
		}
	}) && crc32.Checksum(snapshot, castagnoli) == sum && eachField(snapshot, func(field, _ uint64, b []byte) {
		switch field {
		case text:
			doc = b
		case metadata:
			about = b
		}
	}) && eachField(about, func(field, number uint64, _ []byte) {
		if field == at {
			index = number
		}
	})
	var store struct {
		Root struct {
			Children map[string]struct{ Children map[string]any }
		}
	}
	if !sound || len(doc) > 0 && json.Unmarshal(doc, &store) != nil {
		return 0, false, noLog(newest, "the newest snapshot of the member cannot be read")
	}
	return index, len(store.Root.Children["1"].Children) > 0, nil
}
