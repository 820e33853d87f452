package deploytest

import "testing"

// Prometheus accepts the configuration and the alert rules of each application.
func TestRules(t *testing.T) {
	for _, application := range []string{"taskqueue", "downloads", "goals", "documents"} {
		t.Run(application, func(t *testing.T) { LoadRules(t, "../../"+application+"/deploy") })
	}
}
