package etcdtest

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// Proxy passes on calls to a server unless refuse, which is called for each with its full name, returns an error. It
// returns the client URL to use instead of the server's.
func Proxy(t testing.TB, s *Server, refuse func(method string) error) string {
	t.Helper()
	return proxy(t, s, refuse, func(context.Context, string, int, []byte) []byte { return nil })
}

// SlowProxy passes on calls to a server. Before it passes on an answer, it calls hold with the call's context, its full
// name, and how many of its answers were passed on before.
func SlowProxy(t testing.TB, s *Server, hold func(ctx context.Context, method string, answers int)) string {
	t.Helper()
	return proxy(t, s, func(string) error { return nil }, func(ctx context.Context, method string, answers int, _ []byte) []byte {
		hold(ctx, method, answers)
		return nil
	})
}

// AlteringProxy passes on calls to a server, and what alter returns in place of each answer; nil: the answer itself.
func AlteringProxy(t testing.TB, s *Server, alter func(method string, answer []byte) []byte) string {
	t.Helper()
	return proxy(t, s, func(string) error { return nil }, func(_ context.Context, method string, _ int, answer []byte) []byte {
		return alter(method, answer)
	})
}

// passing is called before an answer is passed on, with how many were before it. What it returns takes the answer's place; nil: nothing does.
type passing func(ctx context.Context, method string, answers int, answer []byte) []byte

func proxy(t testing.TB, s *Server, refuse func(method string) error, hold passing) string {
	t.Helper()
	unlimited := 1 << 30
	conn, err := grpc.NewClient(s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(unlimited), grpc.MaxCallSendMsgSize(unlimited)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(unlimited), grpc.MaxSendMsgSize(unlimited),
		grpc.UnknownServiceHandler(func(_ any, from grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(from)
			if err := refuse(method); err != nil {
				return err
			}
			return passOn(from, conn, method, hold)
		}))
	go server.Serve(l)
	t.Cleanup(func() { server.Stop(); conn.Close() })
	return "http://" + l.Addr().String()
}

func passOn(from grpc.ServerStream, conn *grpc.ClientConn, method string, hold passing) error {
	md, _ := metadata.FromIncomingContext(from.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(from.Context(), md))
	defer cancel()
	to, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var f frame
			if err := from.RecvMsg(&f); err != nil {
				to.CloseSend()
				return
			}
			if to.SendMsg(&f) != nil {
				return
			}
		}
	}()
	for n := 0; ; n++ {
		var f frame
		switch err := to.RecvMsg(&f); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if other := hold(ctx, method, n, f.data); other != nil {
			f.data = other
		}
		if err := from.SendMsg(&f); err != nil {
			return err
		}
	}
}

// frame is a message that is passed on as it is.
type frame struct{ data []byte }

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(m any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(m.(*frame).data)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, m any) error {
	m.(*frame).data = data.Materialize()
	return nil
}
