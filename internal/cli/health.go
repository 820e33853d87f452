package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout is how long a server may take to say whether it is ready.
const healthTimeout = 3 * time.Second

func healthCommand() *cobra.Command {
	var endpoint string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check that a server is ready, for containers without a shell",
		Long: `Check that a server is ready to serve requests, as GET /readyz does. The exit code is 0 if
it is, and 1 if not. An image has no other program that its health check could call.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url := strings.TrimRight(endpoint, "/") + "/readyz"
			r, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
			if err != nil {
				return usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", endpoint)}
			}
			reply, err := serverClient(healthTimeout).Do(r)
			if err != nil {
				return fmt.Errorf("%s is not ready: %w", endpoint, err)
			}
			defer reply.Body.Close()
			text, err := io.ReadAll(io.LimitReader(reply.Body, 4<<10))
			if err != nil {
				return fmt.Errorf("%s is not ready: %w", endpoint, err)
			}
			if reply.StatusCode != http.StatusOK {
				return fmt.Errorf("%s is not ready: %s", endpoint, strings.TrimSpace(string(text)))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "http://127.0.0.1:8000", "URL of the server")
	return cmd
}
