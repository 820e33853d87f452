package cli

import (
	"strings"
	"testing"
)

func TestDAXFlags(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"a name without a port", "--dax-cluster-name x", "--dax-cluster-name requires --dax or --dax-tls"},
		{"nodes without a port", "--dax-nodes a:1", "--dax-nodes requires --dax or --dax-tls"},
		{"TLS without a certificate", "--dax-tls 127.0.0.1:0", "--dax-tls requires --tls-cert and --tls-key"},
		{"nodes of another server", "--in-memory --dax 127.0.0.1:0 --dax-nodes 127.0.0.1:1", "--dax-nodes requires --engine"},
		{"a node without a port", "--engine tikv://x --backups b --dax 127.0.0.1:0 --dax-nodes node2", `"node2" is not the address of a DAX node: it must be HOST:PORT`},
		{"a node with a port that is none", "--engine tikv://x --backups b --dax 127.0.0.1:0 --dax-nodes node2:8111,node3:dax", `its port "dax" is not a number from 1 to 65535`},
		{"a node with a host that is none", "--engine tikv://x --backups b --dax 127.0.0.1:0 --dax-nodes dax://node2:8111", `"dax://node2:8111" is not the address of a DAX node`},
		{"an advertised address that nobody reaches", "--in-memory --dax 127.0.0.1:0 --dax-advertise 0.0.0.0:8111", "clients cannot connect to 0.0.0.0"},
		{"an advertised port that is too large", "--in-memory --dax 127.0.0.1:0 --dax-advertise host:99999", `its port "99999" is not a number from 1 to 65535`},
		{"an address without a port", "--in-memory --dax localhost", `--dax is "localhost", but must be host:port`},
		{"another machine without keys", "--in-memory --dax 0.0.0.0:0", "will not listen on 0.0.0.0:0 for DAX"},
		{"another machine without TLS", "--in-memory --keys k.yaml --dax 0.0.0.0:0", "use --dax-tls instead of --dax"},
		{"a name that is none", "--in-memory --addr 127.0.0.1:0 --dax 127.0.0.1:0 --dax-cluster-name a/b", "cannot be the name of a DAX cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr strings.Builder
			cmd := serveCommand()
			cmd.SetArgs(strings.Fields(c.args))
			cmd.SetErr(&stderr)
			cmd.SetOut(&stderr)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

func TestConnectionsAreDivided(t *testing.T) {
	for _, c := range []struct {
		all       int
		used      bool
		web, fast int
	}{{900, true, 600, 300}, {900, false, 900, 0}, {0, true, 0, 0}, {1, true, 1, 1}} {
		if web, fast := daxConns(c.all, c.used); web != c.web || fast != c.fast {
			t.Errorf("%d connections become %d and %d, want %d and %d", c.all, web, fast, c.web, c.fast)
		}
	}
}
