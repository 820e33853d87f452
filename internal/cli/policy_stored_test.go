package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// Keys and policies are changed in the database of a server that runs; secrets are printed once.
func TestStoredAccess(t *testing.T) {
	f, _ := securedFlags(t)
	f.access.keys.database, f.access.policies.database = true, true
	f.audit, f.auditMB, f.auditKeep = filepath.Join(t.TempDir(), "audit"), 1, 1
	writePrivate(t, f.access.keys.file, strings.TrimSuffix(keysText, "\n")+"\n    principal: arn:aws:iam::000000000000:root\n")
	url, log := startLogged(t, f)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "alice.json"), filepath.Join(dir, "bad.json")
	writePrivate(t, good, "{\n  \"Version\": \"2012-10-17\",\n  \"Statement\": {\"Effect\": \"Allow\", \"Action\": [\"dynamodb:ListTables\", \"stator:ListAccessKeys\"], \"Resource\": \"*\"}\n}\n")
	writePrivate(t, bad, `{"Statement":`)
	const alice, role = "arn:aws:iam::000000000000:user/alice", "arn:aws:iam::000000000000:role/reports"
	var printed strings.Builder
	command := func(code int, want string, args ...string) string {
		t.Helper()
		got, stdout, stderr := runStator(t, append(args, "--endpoint", url)...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v exits with %d, want %d with %q:\n%s%s", args, got, code, want, stdout, stderr)
		}
		printed.WriteString(stdout + stderr)
		return stdout
	}
	_, stdout, stderr := runStator(t, "key", "new", "--endpoint", url, "--principal", alice, "--comment", "the shop", "--json")
	var key shownKey
	if err := json.Unmarshal([]byte(stdout), &key); err != nil || len(key.Secret) != 40 || key.Principal != alice || key.Comment != "the shop" || key.Created == nil || strings.Contains(stderr, key.Secret) {
		t.Fatalf("key new: %s%s %v", stdout, stderr, err)
	}
	command(exitDone, "SOURCE", "key", "list")
	if list := command(exitDone, key.AccessKey, "key", "list"); !strings.Contains(list, "database  the shop") || !strings.Contains(list, testKeyID) {
		t.Errorf("the keys are\n%s", list)
	}
	command(exitDone, `"source":"database"`, "key", "list", "--json")
	command(exitUsage, "bad.json:1:", "policy", "put", alice, "--policy", bad)
	command(exitUsage, "must be KEY=VALUE", "policy", "put", alice, "--tag", "a")
	command(exitUsage, "must be NAME=FILE", "policy", "put", role, "--session", "a")
	command(exitUsage, "needs the ARN", "policy", "put")
	command(exitUsage, "cannot be combined", "key", "list", "--keys", f.access.keys.file)
	command(exitFailed, "only a role has sessions", "policy", "put", alice, "--session", "a="+good)
	command(exitDone, "stored "+alice+" as revision 2", "policy", "put", alice, "--policy", good, "--boundary", good, "--tag", "team=blue", "--expected-revision", "NO_POLICY")
	command(exitFailed, "RevisionMismatch", "policy", "put", alice, "--policy", good, "--expected-revision", "1")
	command(exitDone, `"revision":"3"`, "policy", "put", role, "--policy", good, "--session", "nightly="+good, "--json")
	command(exitDone, "alice.json  alice.json  team=blue", "policy", "list")
	command(exitDone, `"sessions":["nightly"]`, "policy", "list", "--json")
	if text := command(exitDone, "revision   2", "policy", "get", alice); !strings.Contains(text, "\nidentity policy alice.json:\n{\n") || !strings.Contains(text, "permissions boundary alice.json") || !strings.Contains(text, "team=blue") {
		t.Errorf("the policies are\n%s", text)
	}
	var shown shownDefinition
	if err := json.Unmarshal([]byte(command(exitDone, "", "policy", "get", role, "--json")), &shown); err != nil || len(shown.Policies) != 2 || shown.Policies[1].Session != "nightly" {
		t.Errorf("%+v, %v", shown, err)
	}

	// The new key does what its policies allow.
	t.Setenv("AWS_ACCESS_KEY_ID", key.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", key.Secret)
	command(exitDone, alice, "key", "list")
	command(exitFailed, "not authorized to perform: stator:CreateAccessKey", "key", "new")
	command(exitFailed, "not authorized to perform: stator:PutPrincipal", "policy", "put", alice)
	t.Setenv("AWS_ACCESS_KEY_ID", testKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	command(exitFailed, "is in a file of the server", "key", "revoke", testKeyID)
	command(exitFailed, "no access key NONE", "key", "revoke", "NONE")
	command(exitDone, "no server accepts it any more", "key", "revoke", key.AccessKey)
	command(exitDone, "deleted "+alice, "policy", "delete", alice)
	command(exitFailed, "no principal "+alice, "policy", "delete", alice)
	t.Setenv("AWS_ACCESS_KEY_ID", key.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", key.Secret)
	command(exitFailed, "UnrecognizedClientException", "key", "list")
	if text := log.String(); !strings.Contains(text, "access keys are in ") || !strings.Contains(text, "of which the file takes precedence") || !strings.Contains(text, "policies are in database\n") {
		t.Errorf("at start is printed\n%s", text)
	}
	for where, text := range map[string]string{"what was printed": printed.String(), "the log": log.String()} {
		if strings.Contains(text, key.Secret) || strings.Contains(text, "PLANTED") {
			t.Errorf("a secret is in %s:\n%s", where, text)
		}
	}
}

// The sources of keys and policies are a file, the database or both.
func TestAccessSource(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve", "--in-memory", "--keys", "a.yaml", "--keys", "b.yaml"}, exitUsage, "there are two files, a.yaml and b.yaml"},
		{[]string{"serve", "--in-memory", "--keys", ""}, exitUsage, "it is empty"},
		{[]string{"serve", "--in-memory", "--policies", "database"}, exitUsage, "--policies requires --keys"},
		{[]string{"standby", "--of", "http://127.0.0.1:1", "--keys", "database"}, exitUsage, "requires --keys FILE, too"},
	} {
		if code, out := run(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v exits with %d: %s", c.args, code, out)
		}
	}
}
