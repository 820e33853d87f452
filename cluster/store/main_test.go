package main

import (
	"context"
	"testing"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/raft_serverpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
)

func eager() *kvrpcpb.PrewriteRequest {
	return &kvrpcpb.PrewriteRequest{TryOnePc: true, UseAsyncCommit: true, StartVersion: 7}
}

func declined(t *testing.T, r *kvrpcpb.PrewriteRequest) {
	t.Helper()
	if r.TryOnePc || r.UseAsyncCommit || r.StartVersion != 7 {
		t.Errorf("the store is given %v", r)
	}
}

func TestPrewriteIsInTwoPhases(t *testing.T) {
	_, err := unary(context.Background(), eager(), nil, func(_ context.Context, r interface{}) (interface{}, error) {
		declined(t, r.(*kvrpcpb.PrewriteRequest))
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// oneBatch is a stream that has received a get and a prewrite.
type oneBatch struct{ grpc.ServerStream }

func (oneBatch) RecvMsg(m interface{}) error {
	m.(*tikvpb.BatchCommandsRequest).Requests = []*tikvpb.BatchCommandsRequest_Request{
		{Cmd: &tikvpb.BatchCommandsRequest_Request_Get{Get: new(kvrpcpb.GetRequest)}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_Prewrite{Prewrite: eager()}},
	}
	return nil
}

func TestPrewriteInABatchIsInTwoPhases(t *testing.T) {
	err := streamed(nil, oneBatch{}, nil, func(_ interface{}, s grpc.ServerStream) error {
		batch := new(tikvpb.BatchCommandsRequest)
		if err := s.RecvMsg(batch); err != nil {
			return err
		}
		declined(t, batch.Requests[1].GetPrewrite())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// raftBatch is a stream that has received one empty entry among sound ones.
type raftBatch struct{ grpc.ServerStream }

func (raftBatch) RecvMsg(m interface{}) error {
	for _, e := range []eraftpb.Entry{{Term: 6, Index: 8}, {}, {Term: 6, Index: 8, Data: []byte("x")}} {
		m.(*tikvpb.BatchRaftMessage).Msgs = append(m.(*tikvpb.BatchRaftMessage).Msgs, &raft_serverpb.RaftMessage{
			Message: &eraftpb.Message{MsgType: eraftpb.MessageType_MsgAppend, Index: 7, Entries: []*eraftpb.Entry{&e}},
		})
	}
	return nil
}

func TestRaftMessageWithAnEmptyEntryIsDropped(t *testing.T) {
	err := streamed(nil, raftBatch{}, nil, func(_ interface{}, s grpc.ServerStream) error {
		batch := new(tikvpb.BatchRaftMessage)
		if err := s.RecvMsg(batch); err != nil {
			return err
		}
		if len(batch.Msgs) != 2 || batch.Msgs[1].Message.Entries[0].Data == nil {
			t.Errorf("the store is given %v", batch.Msgs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
