package etcdnode

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path"

	"google.golang.org/protobuf/encoding/protowire"

	"cke"
)

// Records of a write-ahead log. Source: etcd, storage/wal, which has the same in 3.5 to 3.7.
const (
	walMetadata = 1
	walEntry    = 2
	walState    = 3
	walChecksum = 4
	walSnapshot = 5
)

// confChange is the type of a log entry that changes the members. Source: etcd-io/raft, raftpb.
const confChange = 1

// firstLogPath is where a first member's first log is put, relative to the volume.
const firstLogPath = dataDir + "/member/wal/" + firstWAL

// firstLog is the write-ahead log that etcd itself would have written when it was started with
// --initial-cluster-state=new: each first member is added, in the order of the ids, and all of that is committed.
//
// A founder is started on it, with arguments that cannot start a member without a log. So no container ever exists that
// could found the cluster a second time. Source: etcd, bootstrapRaftFromCluster; raft, RawNode.Bootstrap.
func firstLog(s cke.MemberSpec) (cke.File, error) {
	founders := s.Founders()
	own, ids := uint64(0), make([]uint64, len(founders))
	for i, f := range founders {
		if ids[i] = f.ID; f.URL == s.Join.PeerURL() {
			own = f.ID
		}
	}
	if own == 0 {
		return cke.File{}, fmt.Errorf("%s is not a member of the bootstrap", s.Join.PeerURL())
	}
	var log walWriter
	log.record(walChecksum, nil)
	log.record(walMetadata, message(1, own, 2, cke.ClusterIDOf(ids)))
	log.record(walSnapshot, message(1, 0, 2, 0))
	for i, f := range founders {
		context, err := json.Marshal(struct {
			ID       uint64   `json:"id"`
			PeerURLs []string `json:"peerURLs"`
			Name     string   `json:"name"`
		}{f.ID, []string{f.URL}, f.Name})
		if err != nil {
			return cke.File{}, err
		}
		change := protowire.AppendBytes(protowire.AppendTag(message(1, 0, 2, 0, 3, f.ID), 4, protowire.BytesType), context)
		log.record(walEntry, protowire.AppendBytes(protowire.AppendTag(message(1, confChange, 2, 1, 3, uint64(i+1)), 4, protowire.BytesType), change))
	}
	log.record(walState, message(1, 1, 2, 0, 3, uint64(len(founders)))) // term, vote, commit
	return cke.File{Path: path.Clean(firstLogPath), Mode: 0o600, Data: log.data}, nil
}

// message encodes numbers as a message of protocol buffers: field, value, field, value, …
func message(numbers ...uint64) []byte {
	var b []byte
	for i := 0; i < len(numbers); i += 2 {
		b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(numbers[i]), protowire.VarintType), numbers[i+1])
	}
	return b
}

// walWriter frames records: a length with the padding in its highest byte, the record, zeros up to eight bytes. The checksum
// of a record covers the content of all before it. Source: etcd, storage/wal/encoder.go.
type walWriter struct {
	data     []byte
	checksum uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (w *walWriter) record(kind uint64, content []byte) {
	w.checksum = crc32.Update(w.checksum, castagnoli, content)
	r := message(1, kind, 2, uint64(w.checksum))
	if content != nil {
		r = protowire.AppendBytes(protowire.AppendTag(r, 3, protowire.BytesType), content)
	}
	length, padding := uint64(len(r)), (8-len(r)%8)%8
	if padding != 0 {
		length |= uint64(0x80|padding) << 56
	}
	w.data = append(binary.LittleEndian.AppendUint64(w.data, length), append(r, make([]byte, padding)...)...)
}
