package clients

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
)

// serve serves a database on a port, and sets the endpoint in the environment.
func serve(t *testing.T) (endpoint string) {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_ENDPOINT_URL", web.URL)
	return web.URL
}

// The environment is all that a program needs to use stator.
func TestDefaultConfig(t *testing.T) {
	serve(t)
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(cfg)
	createSongs(t, client, "Songs")
	putSong(t, client, song{Artist: "ada"})
	got, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil || len(got.TableNames) != 1 {
		t.Errorf("tables are %v, %v", got, err)
	}
}

// The test suite of guregu/dynamo passes.
func TestGureguSuite(t *testing.T) {
	endpoint := serve(t)
	suite := exec.CommandContext(t.Context(), "go", "test", "-count=1", "github.com/guregu/dynamo/v2")
	suite.Env = append(os.Environ(), "DYNAMO_TEST_ENDPOINT="+endpoint, "DYNAMO_TEST_REGION=local", "DYNAMO_TEST_TABLE=Test-%")
	out, err := suite.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
