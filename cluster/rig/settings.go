//go:build linux

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	pdProgram    = "pd-server"
	storeProgram = "unistore-server"
)

// pdSettings make PD replace a lost leader within five seconds; by default it
// takes thirteen. Shorter ones would leave too little for six servers and their
// tests on two cores.
const pdSettings = `lease = 2
tick-interval = "100ms"
election-interval = "1s"
`

func writeSettings(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pd.toml"), []byte(pdSettings), 0o644)
}

// Fixed ports are free: the network is the cluster's own.
func pdAddress(i int) string     { return fmt.Sprintf("127.0.0.1:%d", 2379+100*i) }
func pdPeerAddress(i int) string { return fmt.Sprintf("127.0.0.1:%d", 2380+100*i) }
func storeAddress(i int) string  { return fmt.Sprintf("127.0.0.1:%d", 20160+i) }
func pdName(i int) string        { return fmt.Sprintf("pd%d", i) }

func newPD(bin, dir string, i int) *server {
	var members []string
	for other := range Size {
		members = append(members, pdName(other)+"=http://"+pdPeerAddress(other))
	}
	name := pdName(i)
	return &server{
		name:    name,
		address: pdAddress(i),
		program: filepath.Join(bin, pdProgram),
		args: []string{
			"--config=" + filepath.Join(dir, "pd.toml"),
			"--name=" + name,
			"--data-dir=" + filepath.Join(dir, name),
			"--client-urls=http://" + pdAddress(i),
			"--peer-urls=http://" + pdPeerAddress(i),
			"--initial-cluster=" + strings.Join(members, ","),
		},
		logFile: filepath.Join(dir, name+".log"),
	}
}

func newStore(bin, dir string, i int, sync bool) *server {
	var pds []string
	for other := range Size {
		pds = append(pds, pdAddress(other))
	}
	name := fmt.Sprintf("store%d", i)
	return &server{
		name:    name,
		address: storeAddress(i),
		program: filepath.Join(bin, storeProgram),
		args: []string{
			"-pd=" + strings.Join(pds, ","),
			"-addr=" + storeAddress(i),
			"-data-dir=" + filepath.Join(dir, name),
			fmt.Sprintf("-sync=%t", sync),
		},
		// Two of its libraries declare the same message.
		env:     []string{"GOLANG_PROTOBUF_REGISTRATION_CONFLICT=ignore"},
		logFile: filepath.Join(dir, name+".log"),
	}
}
