package deploytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func shop() *cobra.Command {
	root := &cobra.Command{Use: "shop"}
	serve := &cobra.Command{Use: "serve", RunE: func(*cobra.Command, []string) error { return nil }, Args: cobra.NoArgs}
	serve.Flags().String("endpoint", "", "")
	root.AddCommand(serve)
	return root
}

const (
	goodCompose = "services:\n  shop:\n    image: stator/shop\n    command: [serve, --endpoint, http://stator:8000]\n    volumes: [\"./alerts.yaml:/alerts.yaml\"]\n"
	goodAlerts  = "groups:\n  - name: shop\n    rules:\n      - {alert: Slow, expr: 'rate(shop_wait_seconds_sum[5m]) > 1', annotations: {summary: s, action: a}}\n"
	goodBoard   = `{"title": "Shop", "uid": "shop", "panels": [{"title": "Orders", "targets": [{"expr": "rate(shop_orders_total[1m])"}]}]}`
	source      = `package shop
import "github.com/prometheus/client_golang/prometheus"
var (
	_ = prometheus.CounterOpts{Name: "shop_orders_total"}
	_ = prometheus.HistogramOpts{Name: "shop_" + "wait_seconds"}
)
`
)

// Each fault is found, and a good folder has none.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ name, compose, alerts, board, want string }{
		{name: "good"},
		{name: "flag", compose: strings.Replace(goodCompose, "--endpoint", "--endpiont", 1), want: "unknown flag"},
		{name: "command", compose: strings.Replace(goodCompose, "serve", "server", 1), want: "unknown command"},
		{name: "argument", compose: strings.Replace(goodCompose, "serve,", "serve, all,", 1), want: "unknown command"},
		{name: "image", compose: strings.Replace(goodCompose, "stator/shop", "shop", 1), want: "no service with the image"},
		{name: "file", compose: strings.Replace(goodCompose, "./alerts.yaml:", "./rules.yaml:", 1), want: "rules.yaml"},
		{name: "metric of a rule", alerts: strings.Replace(goodAlerts, "shop_wait", "shop_waits", 1), want: "shop_waits_seconds_sum"},
		{name: "action of a rule", alerts: strings.Replace(goodAlerts, ", action: a", "", 1), want: "no action"},
		{name: "metric of a board", board: strings.Replace(goodBoard, "orders_total", "orders", 1), want: "asks for shop_orders,"},
		{name: "panel", board: strings.Replace(goodBoard, "Orders", "", 1), want: "no title"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "shop")
			if err := os.MkdirAll(filepath.Join(folder, "deploy"), 0o700); err != nil {
				t.Fatal(err)
			}
			or := func(text, good string) string {
				if text == "" {
					return good
				}
				return text
			}
			for name, text := range map[string]string{"shop.go": source, "deploy/compose.yaml": or(c.compose, goodCompose),
				"deploy/alerts.yaml": or(c.alerts, goodAlerts), "deploy/board.json": or(c.board, goodBoard)} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var found []string
			for _, err := range Faults(folder, shop) {
				found = append(found, err.Error())
			}
			switch all := strings.Join(found, "\n"); {
			case c.want == "" && all != "":
				t.Errorf("faults of a good folder: %s", all)
			case !strings.Contains(all, c.want):
				t.Errorf("the faults are %q, want %q", all, c.want)
			}
		})
	}
}
