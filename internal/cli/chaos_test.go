package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/chaos"
	"github.com/stator-db/stator/internal/inject"
)

// runCLI runs a command line, and returns its exit code and output.
func runCLI(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// listsTables makes this program a command for stator chaos, which lists the tables of its server.
const listsTables = "STATOR_TEST_LISTS_TABLES"

// TestMain runs the tests, or that command.
func TestMain(m *testing.M) {
	if os.Getenv(listsTables) == "" {
		os.Exit(m.Run())
	}
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL")), Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	for range 4 {
		if _, err := client.ListTables(context.Background(), new(dynamodb.ListTablesInput)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// sendsRequests is a command of the shell that sends requests and succeeds, with or without the faults
// of faultsOfLists. With the race detector it would end a second late.
func sendsRequests() string {
	return listsTables + "=1 GORACE=atexit_sleep_ms=0 " + quoted(os.Args[0])
}

// faultsOfLists writes a file with a fault for each request of sendsRequests, and returns its name.
func faultsOfLists(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(file, []byte("faults:\n  - {fault: latency, operations: [ListTables], delay: 1ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// checkEnvironment fails unless the command finds the server by its environment.
const checkEnvironment = `test -n "$AWS_ENDPOINT_URL_DYNAMODB" && test "$MY_ENDPOINT" = "$AWS_ENDPOINT_URL" && test -z "$AWS_PROFILE" && `

func TestChaosPasses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is for a POSIX shell")
	}
	t.Setenv("AWS_PROFILE", "mine")
	code, stdout, stderr := runCLI("chaos", "--check", checkEnvironment+sendsRequests(), "--faults", faultsOfLists(t), "--endpoint-env", "MY_ENDPOINT", "--seeds", "3", "--parallel", "2", "--json")
	var got struct {
		Controls, Seeds, Injected int
		Failures                  []any
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != exitDone || err != nil || got.Controls != 2 || got.Seeds != 3 || got.Injected != 12 || len(got.Failures) != 0 {
		t.Errorf("exit code %d, %s%s, %v", code, stdout, stderr, err)
	}
}

// A command whose requests get no faults is not reported as one that they do not break.
func TestChaosWithoutFaults(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is for a POSIX shell")
	}
	replay := filepath.Join(t.TempDir(), "replay.yaml")
	if err := os.WriteFile(replay, []byte("faults:\n  - {fault: latency, operations: [PutItem], request: \"0123456789abcdef\", occurrences: [1]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		args           []string
		stdout, stderr string
	}{
		{"it sends no request", []string{"--check", "true"}, "", "no run without faults sent its server a request"},
		{"it sends no request in a replay", []string{"--check", "true", "--replay", replay}, "", "name another variable that the command reads with --endpoint-env"},
		{"no rule matches its requests", []string{"--check", sendsRequests()}, "0 of 2 runs failed, 0 faults injected\nno fault was injected into any run", "no fault was injected in 2 runs"},
		{"the same as JSON", []string{"--check", sendsRequests(), "--json"}, `"injected":0`, "no fault was injected in 2 runs"},
		{"no fault of a replay matches", []string{"--check", sendsRequests(), "--replay", replay}, "no fault was injected into any run", "no fault of " + replay + " was injected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runCLI(append([]string{"chaos", "--seeds", "2"}, c.args...)...)
			if code != exitFailed || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || (stdout == "") != (c.stdout == "") {
				t.Errorf("exit code %d, want %d:\n%s%s\nwant %s, %s", code, exitFailed, stdout, stderr, c.stdout, c.stderr)
			}
		})
	}
}

// A command that breaks by something else than faults is reported as what it is.
func TestChaosWithoutCause(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is for a POSIX shell")
	}
	t.Chdir(t.TempDir())
	flaky := filepath.Join(t.TempDir(), "runs")
	for _, c := range []struct {
		name, check, want string
	}{
		{"it fails without faults", "echo no good; exit 3", "the check fails without faults, in 2 of 2 runs: the command ended with exit status 3"},
		{"it fails without faults at times", "echo >> " + flaky + "; test $(wc -l < " + flaky + ") -ne 2", "but not always: it failed in 1 of 2 runs"},
		{"it fails at a seed, but not again", "test $STATOR_SEED != 2 || { test -e " + flaky + "-2; was=$?; touch " + flaky + "-2; exit $was; }", "No fault was injected, and it passed when it was run again with this seed: it depends on something else,\nsuch as time or the order of parallel requests\n\nthe end of what"},
		{"it fails at a seed", "test $STATOR_SEED != 2", "No fault was injected; without faults 3 of 3 further runs with this seed failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := sendsRequests() + " && { " + c.check + "\n}"
			code, stdout, stderr := runCLI("chaos", "--check", check, "--seeds", "3", "--max-runs", "1")
			if code != exitFailed || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, want %d:\n%s%s\nwant %s", code, exitFailed, stdout, stderr, c.want)
			}
		})
	}
}

// What is said of a failure is what was seen: faults are enough only if the command has failed with them.
func TestChaosReport(t *testing.T) {
	faults := []stator.InjectedFault{{Number: 1, Fault: inject.LostAnswer, Operation: "PutItem", Key: "first"}, {Number: 2, Fault: inject.StaleRead, Operation: "GetItem", Key: "second"}}
	broken := chaos.Run{Seed: 7, Faults: faults, Injected: 2, Output: "the seed", Err: errors.New("broken")}
	unbroken := broken
	unbroken.Faults, unbroken.Injected = []stator.InjectedFault{}, 0
	again := broken
	again.Output, again.Faults = "again", faults[:1]
	for _, c := range []struct {
		name         string
		failure      chaos.Failure
		says, output string
		reproduced   bool
	}{
		{"reduced", chaos.Failure{Run: broken, Minimal: faults[:1], Runs: 9, Whole: true, Confirmed: 2, Confirmations: 3, Reproduced: true, Shown: again},
			"1 of 2 faults are enough (9 runs); with them 2 of 3 runs failed", "again", true},
		{"to none", chaos.Failure{Run: broken, Minimal: []stator.InjectedFault{}, Runs: 2, Whole: true, Confirmed: 3, Confirmations: 3, Reproduced: true, Shown: chaos.Run{Output: "again"}},
			"It needs no fault: without faults 3 of 3 further runs with this seed failed", "again", true},
		{"not reduced", chaos.Failure{Run: broken, Runs: 9, Confirmed: 2, Confirmations: 3, Reproduced: true, Shown: again},
			"Its 2 faults could not be reduced (9 runs): with all of them 2 of 3 further runs failed", "again", true},
		{"not reduced, and it never failed again", chaos.Failure{Run: broken, Runs: 9, Confirmations: 3},
			"Its 2 faults could not be reduced (9 runs): with all of them 0 of 3 further runs failed", "the seed", false},
		{"interrupted", chaos.Failure{Run: broken, Interrupted: true},
			"The search ended before its 2 faults were reduced", "the seed", false},
		{"not the same again", chaos.Failure{Run: broken, Runs: 3, Whole: true},
			"It passed when the same 2 faults were injected again", "the seed", false},
		{"not the same again, without faults", chaos.Failure{Run: unbroken, Runs: 3, Whole: true},
			"No fault was injected, and it passed when it was run again with this seed", "the seed", false},
		{"interrupted without faults", chaos.Failure{Run: unbroken, Interrupted: true},
			"No fault was injected. The search ended before it was run again with this seed", "the seed", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, result := chaosFlags{check: "true"}, &chaos.Result{Tried: 7, Injected: 2, Failures: []chaos.Failure{c.failure}}
			var text, encoded bytes.Buffer
			if err := errors.Join(f.print(&text, new(stator.FaultPlan), result, []string{"file"}), f.printJSON(&encoded, result, []string{"file"})); err != nil {
				t.Fatal(err)
			}
			said := text.String()
			if !strings.Contains(said, c.says) || strings.Contains(said, "are enough") != (len(c.failure.Minimal) > 0) || !strings.Contains(said, "\n    "+c.output+"\n") || strings.Contains(said, "  first ") != (len(c.failure.Shown.Faults) > 0 || !c.reproduced && len(c.failure.Faults) > 0) {
				t.Errorf("the text is %s, want %q, and the output %q", said, c.says, c.output)
			}
			if want := fmt.Sprintf(`"reproduced":%v,"interrupted":%v,`, c.reproduced, c.failure.Interrupted); !strings.Contains(encoded.String(), want) {
				t.Errorf("the JSON is %s, want %s", encoded.String(), want)
			}
		})
	}
}

// The file of a seed that breaks the command whatever the faults has none: its replay runs the command with the seed, and passes
// once that does.
func TestChaosReplayOfASeed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is for a POSIX shell")
	}
	t.Chdir(t.TempDir())
	const other = "other.yaml"
	if err := os.WriteFile(other, []byte("seed: 1\nfaults:\n  - {fault: latency, operations: [PutItem]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const seedAlone = "the command fails with a seed, without injected faults"
	broken, fixed := sendsRequests()+" && test $STATOR_SEED != 1", sendsRequests()
	for _, c := range []struct {
		name, check    string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"the search", broken, []string{"--seeds", "1", "--faults", faultsOfLists(t), "--out", "seed.yaml"}, exitFailed, "It needs no fault", seedAlone},
		{"the replay", broken, []string{"--replay", "seed.yaml"}, exitFailed,
			"with seed 1     1 of 1 runs failed; seed.yaml has no faults\n\nit fails with seed 1 of seed.yaml, without injected faults: the command ended with exit status 1\n\nthe end", seedAlone},
		{"the replay when it is fixed", fixed, []string{"--replay", "seed.yaml", "--seeds", "2"}, exitDone, "with seed 1     0 of 2 runs failed; seed.yaml has no faults\n", ""},
		{"a search without faults", fixed, []string{"--faults", "seed.yaml", "--seeds", "2"}, exitFailed, "no fault was injected into any run", "no fault was injected in 2 runs"},
		{"a replay whose faults are not injected", broken, []string{"--replay", other}, exitFailed,
			"no fault was injected into any run\n\nit fails with seed 1 of other.yaml, without injected faults", seedAlone},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runCLI(append([]string{"chaos", "--check", c.check}, c.args...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || (c.code == exitDone && strings.Contains(stdout+stderr, "injected")) {
				t.Errorf("exit code %d, want %d:\n%s%s\nwant %s, %s", code, c.code, stdout, stderr, c.stdout, c.stderr)
			}
		})
	}
}

// The faults of a failure are lists for programs, empty ones too; minimal is null only if it could not be found.
func TestChaosJSONWithoutFaults(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is for a POSIX shell")
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name, check, want string
	}{
		{"it fails at a seed", "test $STATOR_SEED != 1", `"minimal":[],"injected":[],`},
		{"it fails at a seed, but not again", "test $STATOR_SEED != 1 || test -e failed || ! touch failed", `"minimal":null,"injected":[],`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runCLI("chaos", "--check", sendsRequests()+" && { "+c.check+"; }", "--seeds", "1", "--json")
			if code != exitFailed || !strings.Contains(stdout, c.want) {
				t.Errorf("exit code %d, want %d:\n%s%s\nwant %s", code, exitFailed, stdout, stderr, c.want)
			}
		})
	}
}

// A search that is interrupted, or cannot write a file, prints the failures that it has found before it ends.
func TestChaosEndsEarly(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the command sends a signal of POSIX")
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name, check    string
		args           []string
		stdout, stderr string
	}{
		{"interrupted", "{ test $STATOR_SEED = 0 || { echo >>runs; test $(wc -l <runs) -lt 4 || { kill -INT $PPID; sleep 1000; }; false; }; }", []string{"--failures", "3"},
			"3 of 3 runs failed, 12 faults injected\n\nseed 1 has broken it: the command ended with exit status 1\nThe search ended before its 4 faults were reduced", "cannot complete the search: context canceled"},
		{"it cannot write", "test $STATOR_SEED = 0", []string{"--out", filepath.Join("no", "such", "folder")}, "It needs no fault: without faults 3 of 3 further runs with this seed failed", "cannot write the faults"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runCLI(append([]string{"chaos", "--check", sendsRequests() + " && " + c.check, "--seeds", "3", "--faults", faultsOfLists(t)}, c.args...)...)
			if code != exitFailed || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d:\n%s%s\nwant %s, and %s", code, exitFailed, stdout, stderr, c.stdout, c.stderr)
			}
		})
	}
	for _, name := range []string{"stator-chaos-1.yaml", "stator-chaos-2.yaml", "stator-chaos-3.yaml"} {
		if text, err := os.ReadFile(name); err != nil || strings.Count(string(text), "latency") != 4 {
			t.Errorf("the file of an interrupted failure is %s, %v", text, err)
		}
	}
}

// What a command has left in the background ends with it, and does not keep ports from the next run.
func TestChaosEndsWhatIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the command is for a POSIX shell with process groups")
	}
	t.Chdir(t.TempDir())
	for _, output := range []string{"", " >log 2>&1"} {
		check := "trap '' TERM; (trap '' TERM INT HUP; echo begun; exec sleep 1000)" + output + " & echo $! >>left; " + sendsRequests()
		if code, stdout, stderr := runCLI("chaos", "--check", check, "--seeds", "2", "--faults", faultsOfLists(t)); code != exitDone {
			t.Errorf("with the output%s: exit code %d, %s%s", output, code, stdout, stderr)
		}
	}
	left, err := os.ReadFile("left")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(left))); n != 8 {
		t.Errorf("%d processes were started", n)
	}
	for _, id := range strings.Fields(string(left)) {
		if out, err := exec.Command("ps", "-o", "stat=", "-p", id).Output(); err == nil && !strings.HasPrefix(string(out), "Z") {
			t.Errorf("process %s is left: %s", id, out)
		}
	}
}

func TestChaosUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(file, []byte("faults:\n  - fault: nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"chaos"}, "--check must be a command"},
		{[]string{"chaos", "--check", "true", "--seeds", "0"}, "must be at least 1"},
		{[]string{"chaos", "--check", "true", "--parallel", "65"}, "at most 64"},
		{[]string{"chaos", "--check", "true", "--identity", "x"}, "auto, key or operation"},
		{[]string{"chaos", "--check", "true", "--identity", "operation", "--replay", file}, "--replay and --identity cannot be combined"},
		{[]string{"chaos", "--check", "true", "--identity", "auto", "--replay", file}, "--replay and --identity cannot be combined"},
		{[]string{"chaos", "--check", "true", "--max-runs", "9", "--replay", file}, "--replay and --max-runs cannot be combined"},
		{[]string{"chaos", "--check", "true", "--parallel", "2", "--replay", file}, "--replay and --parallel cannot be combined"},
		{[]string{"chaos", "--check", "true", "--out", "f.yaml", "--replay", file}, "--replay and --out cannot be combined"},
		{[]string{"chaos", "--check", "true", "--faults", file}, file + ":2:12: fault \"nothing\""},
		{[]string{"serve", "--in-memory", "--faults", file}, file + ":2:12: fault \"nothing\""},
		{[]string{"serve", "--in-memory", "--fault-seed", "3"}, "--fault-seed requires --faults"},
		{[]string{"faults", "set"}, "a file of faults, or off"},
		{[]string{"faults", "show"}, "--endpoint must name the server"},
	} {
		if code, _, stderr := runCLI(c.args...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s, want %s", c.args, code, stderr, c.want)
		}
	}
	code, stdout, _ := runCLI("chaos", "--print-faults")
	if _, err := inject.Parse("default", []byte(stdout)); code != exitDone || err != nil {
		t.Errorf("--print-faults: exit code %d, %v", code, err)
	}
}
