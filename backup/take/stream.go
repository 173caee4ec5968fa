package take

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
)

// maxPart bounds one message of a snapshot; etcd sends 32 KiB at a time.
const maxPart = 16 << 20

// receive writes the snapshot of a member to w as it arrives. Whether it is whole shows in its own digest only.
//
// etcd's client copies every byte four times on its way, through memory that it allocates for each message: a fifth of all
// that a full costs. Here bytes go from the transport's buffers straight to w.
func receive(ctx context.Context, cli *clientv3.Client, w io.Writer, options ...grpc.CallOption) error {
	awaitConnection(ctx, cli.ActiveConnection())
	stream, err := cli.ActiveConnection().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.Maintenance_Snapshot_FullMethodName,
		append(options, grpc.ForceCodecV2(snapshotCodec{}), grpc.MaxCallRecvMsgSize(maxPart))...)
	if err != nil {
		return rpctypes.Error(err)
	}
	if err := errors.Join(stream.SendMsg(nil), stream.CloseSend()); err != nil {
		return rpctypes.Error(err)
	}
	kept := &errorKeeper{w: w}
	for {
		switch err := stream.RecvMsg(kept); {
		case kept.err != nil:
			return kept.err
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return rpctypes.Error(err)
		}
	}
}

// confirm asks over the very connection that a snapshot came on of which cluster it is: the stream carries no cluster id, and another cluster may have
// taken the address since the member was chosen.
func confirm(ctx context.Context, cli *clientv3.Client, from *peer.Peer, clusterID uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var now peer.Peer
	s, err := pb.NewMaintenanceClient(cli.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.Peer(&now))
	switch {
	case err != nil:
		return fmt.Errorf("ask which cluster it is from: %w", rpctypes.Error(err))
	case s.Header.ClusterId != clusterID:
		return fmt.Errorf("it is from the cluster with id %x, but the member belonged to %x", s.Header.ClusterId, clusterID)
	case now.String() != from.String():
		return errors.New("the connection was lost right after it: which cluster it is from is unknown")
	}
	return nil
}

// errorKeeper remembers what went wrong: of an error in a codec, gRPC passes on the text alone.
type errorKeeper struct {
	w   io.Writer
	err error
}

func (k *errorKeeper) Write(p []byte) (n int, err error) {
	n, k.err = k.w.Write(p)
	return n, k.err
}

// snapshotCodec encodes pb.SnapshotRequest, which is empty, and writes the blob of a pb.SnapshotResponse to an io.Writer.
type snapshotCodec struct{}

// Name returns the name of the ordinary codec: the wire format is the same.
func (snapshotCodec) Name() string { return "proto" }

func (snapshotCodec) Marshal(any) (mem.BufferSlice, error) { return nil, nil }

// Field 3 of pb.SnapshotResponse, shifted and tagged with its wire type.
const tagBlob = 3<<3 | 2

// Unmarshal walks over the fields of a pb.SnapshotResponse.
func (snapshotCodec) Unmarshal(data mem.BufferSlice, to any) error {
	r := data.Reader()
	defer r.Close()
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return fmt.Errorf("message of a snapshot: %w", err)
		}
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return fmt.Errorf("message of a snapshot: %w", err)
		}
		switch {
		case tag&7 == 0: // a number: n is all of it
			continue
		case tag&7 != 2 || n > uint64(r.Remaining()):
			return fmt.Errorf("message of a snapshot: field %d of type %d and %d bytes", tag>>3, tag&7, n)
		case tag == tagBlob:
			if err := writeFrom(r, int(n), to.(io.Writer)); err != nil {
				return err
			}
		}
		if _, err := r.Discard(int(n)); err != nil {
			return err
		}
	}
	return nil
}

// writeFrom writes the next n bytes without taking them from r.
func writeFrom(r *mem.Reader, n int, w io.Writer) error {
	parts, err := r.Peek(n, nil)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// awaitConnection connects at once, and waits a while until that has succeeded. The member has just answered through another connection; this one
// may rest, since it could not be made while the member restarted.
func awaitConnection(ctx context.Context, c *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c.ResetConnectBackoff()
	for {
		now := c.GetState()
		switch now {
		case connectivity.Ready, connectivity.Shutdown:
			return
		case connectivity.Idle:
			c.Connect()
		}
		if !c.WaitForStateChange(ctx, now) {
			return
		}
	}
}
