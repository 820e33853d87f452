// Command unistore-server is the store of the test cluster: unistore, which
// speaks TiKV's protocol over Raft, with what our client needs of a TiKV beside.
//
//   - It answers gRPC's health check. Without one the client believes for ever
//     that a store which once was lost is lost still.
//   - It declines one-phase and asynchronous commit, as a TiKV may; the client
//     then commits in two phases. unistore takes the commit timestamp of the two
//     before readers can see the write, and loses updates.
//   - It drops Raft messages whose entries are not those they are said to be,
//     which unistore sends at times and panics upon. Raft sends them again.
//   - It listens on 127.0.0.1 alone, and starts again over its own data.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ngaut/unistore/config"
	"github.com/ngaut/unistore/server"
	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/pingcap/tidb/store/mockstore/unistore/pd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

func main() {
	members := flag.String("pd", "", "addresses of PD, with commas between")
	address := flag.String("addr", "127.0.0.1:20160", "address to serve on, which others are told too")
	data := flag.String("data-dir", "", "folder for the data")
	sync := flag.Bool("sync", false, "sync each write to disk")
	flag.Parse()
	if err := serve(*members, *address, *data, *sync); err != nil {
		log.Fatalf("unistore-server: %v", err)
	}
}

func serve(members, address, data string, sync bool) error {
	// It refuses to start when it finds the snapshots of its last life.
	if err := os.RemoveAll(filepath.Join(data, "snap")); err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	client, err := pd.NewClient(strings.Split(members, ","), "")
	if err != nil {
		return err
	}
	store, err := server.New(settings(members, address, data, sync), client)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	const maxMessage = 10 << 20 // a Raft entry of 8 MiB, with what surrounds it
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		// The client asks an idle connection every few seconds; gRPC's
		// default takes that for an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(unary),
		grpc.StreamInterceptor(streamed),
	)
	tikvpb.RegisterTikvServer(g, store)
	deadlock.RegisterDeadlockServer(g, store)
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	return g.Serve(listener)
}

// settings are the defaults, with Raft's clock ten times as fast: a lost leader
// is replaced within two seconds and not twenty.
func settings(members, address, data string, sync bool) *config.Config {
	c := config.DefaultConf
	c.Server.PDAddr = members
	c.Server.StoreAddr = address
	c.Engine.DBPath = data
	c.Engine.SyncWrite = sync
	c.RaftStore.RaftBaseTickInterval = "100ms"
	c.RaftStore.RaftStoreMaxLeaderLease = "900ms"
	c.RaftStore.PdHeartbeatTickInterval = "1s"
	return &c
}

// twoPhases takes from a prewrite the wish to commit in fewer. The reply then
// has no commit timestamp, which tells the client.
func twoPhases(r *kvrpcpb.PrewriteRequest) {
	r.TryOnePc = false
	r.UseAsyncCommit = false
}

func unary(ctx context.Context, request interface{}, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (interface{}, error) {
	if r, ok := request.(*kvrpcpb.PrewriteRequest); ok {
		twoPhases(r)
	}
	return next(ctx, request)
}

func streamed(service interface{}, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(service, filtered{s})
}

// filtered is a stream whose batches ask for two phases and whose Raft messages
// are sound.
type filtered struct{ grpc.ServerStream }

func (s filtered) RecvMsg(m interface{}) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	switch m := m.(type) {
	case *tikvpb.BatchCommandsRequest:
		for _, r := range m.Requests {
			if p := r.GetPrewrite(); p != nil {
				twoPhases(p)
			}
		}
	case *tikvpb.BatchRaftMessage:
		all := m.Msgs
		m.Msgs = nil
		for _, r := range all {
			if sound(r.GetMessage()) {
				m.Msgs = append(m.Msgs, r)
			} else {
				log.Printf("dropped a Raft message that is not sound: %v", r)
			}
		}
	}
	return nil
}

// sound tells whether the entries of a message follow the one it names.
func sound(m *eraftpb.Message) bool {
	if m.GetMsgType() != eraftpb.MessageType_MsgAppend {
		return true
	}
	for i, e := range m.Entries {
		if e.Term == 0 || e.Index != m.Index+1+uint64(i) {
			return false
		}
	}
	return true
}
